// SPDX-License-Identifier: Apache-2.0
// Partitions and sharing daemons on a living agent with real sandboxes. The judges are the scripted device,
// which knows what layouts are legal, and the files of a stand-in for the vendor's daemon.
#include <doctest/doctest.h>

#include "agent/test_cut_device.hpp"
#include "agent/test_node.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;
using wire::LeaseState;

struct CutNode {
  std::filesystem::path place =
      std::filesystem::temp_directory_path() / ("tranche-cut-test-" + std::to_string(::getpid()));
  CutMachine machine{place};
  Node node;

  CutNode() {
    node.port = [this] { return machine.port(); };
    node.change = [](AgentOptions& options) {
      options.shares_patience = std::chrono::milliseconds(300);
      options.rules.sharing_daemons = true;
    };
  }
  ~CutNode() {
    node.stop();
    remove_tree(place);
  }
  wire::LeaseGrant hard(std::uint64_t lease,
                        const std::string& run,
                        const std::string& profile,
                        std::uint8_t start) {
    wire::LeaseGrant grant = Node::grant(lease, run);
    grant.slices.push_back({.device = {3},
                            .uuid = machine.uuid(0),
                            .isolation = wire::Isolation::kHard,
                            .vram = gibibytes(10),
                            .profile = profile,
                            .start = start});
    grant.must_scrub = false;
    return grant;
  }
  wire::LeaseGrant soft(std::uint64_t lease, PartyId tenant, const std::string& run) {
    wire::LeaseGrant grant = Node::grant(lease, run);
    grant.tenant = tenant;
    grant.slices.push_back({.device = {3},
                            .uuid = machine.uuid(0),
                            .isolation = wire::Isolation::kSoft,
                            .vram = gibibytes(10),
                            .milli = 250});
    grant.must_scrub = false;
    return grant;
  }
  void end(std::uint64_t lease) {
    node.server.send(wire::LeaseRevoke{.lease = {lease}, .epoch = 1, .way = wire::RevokeWay::kKill});
    node.server.wait_for_state({lease}, LeaseState::kEnded);
  }
  std::string output_of(std::uint64_t lease) {
    return node.server
        .wait_for<wire::LogChunk>([&](const auto& chunk) {
          return chunk.lease.value == lease && chunk.stream == wire::LogStream::kStdout;
        })
        .bytes;
  }
};

TEST_CASE("agent: a partition is made before its job starts, named to it, and gone when the lease is over") {
  CutNode cut;
  cut.node.start();
  cut.node.server.send(cut.hard(1, "echo $CUDA_VISIBLE_DEVICES; sleep 600", "3g.40gb", 4));
  cut.node.server.wait_for_state({1}, LeaseState::kRunning);
  REQUIRE(cut.machine.partitions(0).size() == 1);
  const gpu::Partition made = cut.machine.partitions(0).front();
  CHECK(made.profile == "3g.40gb");
  CHECK(made.start == 4);
  CHECK(cut.output_of(1) == made.uuid + "\n");
  cut.node.server.send(cut.hard(2, "sleep 600", "1g.10gb", 0));
  cut.node.server.wait_for_state({2}, LeaseState::kRunning);
  CHECK(cut.machine.partitions(0).size() == 2);
  cut.end(1);
  REQUIRE(cut.machine.partitions(0).size() == 1);
  CHECK(cut.machine.partitions(0).front().profile == "1g.10gb");
  cut.end(2);
  CHECK(cut.machine.partitions(0).empty());
}

TEST_CASE("agent: the time slice of a device is set while a soft lease is there, and set back by the last") {
  CutNode cut;
  cut.node.change = [](AgentOptions& options) { options.rules.time_slice = gpu::TimeSlice::kShort; };
  cut.node.start();
  for (const std::uint64_t lease : {1U, 2U}) {
    cut.node.server.send(cut.soft(lease, {7}, "sleep 600"));
    cut.node.server.wait_for_state({lease}, LeaseState::kRunning);
  }
  CHECK(cut.machine.time_slice(cut.machine.uuid(0)) == gpu::TimeSlice::kShort);
  cut.end(1);
  CHECK(cut.machine.time_slice(cut.machine.uuid(0)) == gpu::TimeSlice::kShort);
  cut.node.stop();
  cut.node.start();  // The next agent knows what the one before set.
  cut.end(2);
  CHECK(cut.machine.time_slice(cut.machine.uuid(0)) == gpu::TimeSlice::kDefault);
}

TEST_CASE("agent: a dedicated device takes one process at a time where the node says so") {
  CutNode cut;
  cut.node.change = [](AgentOptions& options) { options.rules.exclusive_devices = true; };
  cut.node.start();
  wire::LeaseGrant grant = cut.soft(1, {7}, "sleep 600");
  grant.slices.front().isolation = wire::Isolation::kDedicated;
  grant.slices.front().milli = 1000;
  cut.node.server.send(grant);
  cut.node.server.wait_for_state({1}, LeaseState::kRunning);
  CHECK(cut.machine.is_exclusive(cut.machine.uuid(0)));
  CHECK_FALSE(cut.machine.is_exclusive(cut.machine.uuid(1)));
  cut.end(1);
  CHECK_FALSE(cut.machine.is_exclusive(cut.machine.uuid(0)));
}

TEST_CASE("agent: a partition that cannot be made is the platform's fault, and leaves nothing") {
  CutNode cut;
  cut.node.start();
  wire::LeaseGrant grant = cut.hard(1, "true", "1g.10gb", 0);
  grant.slices.push_back(cut.hard(1, "", "3g.40gb", 1).slices.front());  // No legal start.
  cut.node.server.send(grant);
  const auto refused = cut.node.server.wait_for_state({1}, LeaseState::kRefused);
  CHECK(refused.reason == EndReason::kPlatformFault);
  CHECK(refused.message.find("cannot start at 1") != std::string::npos);
  CHECK(cut.machine.partitions(0).empty());
}

TEST_CASE("agent: what no lease has makes room, what one has stays") {
  CutNode cut;
  cut.machine.cut(0, "4g.40gb", 0);
  cut.node.start();
  cut.node.server.send(cut.hard(1, "sleep 600", "1g.10gb", 2));
  cut.node.server.wait_for_state({1}, LeaseState::kRunning);
  REQUIRE(cut.machine.partitions(0).size() == 1);
  cut.node.server.send(cut.hard(2, "true", "4g.40gb", 0));
  CHECK(cut.node.server.wait_for_state({2}, LeaseState::kRefused).reason == EndReason::kPlatformFault);
  CHECK(cut.machine.partitions(0).size() == 1);
  cut.end(1);
}

TEST_CASE("agent: the next agent takes down what the one before set up") {
  CutNode cut;
  cut.node.start();
  cut.node.server.send(cut.hard(1, "sleep 600", "2g.20gb", 2));
  cut.node.server.wait_for_state({1}, LeaseState::kRunning);
  cut.node.stop();
  REQUIRE(cut.machine.partitions(0).size() == 1);
  cut.node.start();
  CHECK(cut.machine.partitions(0).size() == 1);
  cut.end(1);
  CHECK(cut.machine.partitions(0).empty());
}

TEST_CASE("agent: a partition that does not go away takes its device out of service") {
  CutNode cut;
  cut.node.start();
  cut.node.server.send(cut.hard(1, "sleep 600", "1g.10gb", 0));
  cut.node.server.wait_for_state({1}, LeaseState::kRunning);
  cut.machine.refuse_to_destroy(true);
  cut.end(1);
  const auto signal = cut.node.server.wait_for<wire::HealthSignal>([](const auto&) { return true; });
  CHECK(signal.uuid == cut.machine.uuid(0));
  CHECK(signal.source == "agent");
  CHECK(signal.code == wire::kShareStuck);
  CHECK(signal.text.find("process 4711") != std::string::npos);
}

TEST_CASE("agent: a driver that needs a moment gets it") {
  CutNode cut;
  cut.node.change = [](AgentOptions& options) { options.shares_patience = std::chrono::hours(1); };
  cut.node.start();
  cut.node.server.send(cut.hard(1, "exit 0", "1g.10gb", 0));
  cut.machine.refuse_to_destroy(true);
  cut.node.server.wait_for<wire::Heartbeat>([](const auto&) { return true; });
  cut.machine.refuse_to_destroy(false);
  CHECK(cut.node.server.wait_for_state({1}, LeaseState::kEnded).exit_code == 0);
  CHECK(cut.machine.partitions(0).empty());
}

TEST_CASE("agent: one sharing daemon for each tenant on a device, as long as a job of it is there") {
  CutNode cut;
  cut.node.start();
  const std::string device = cut.machine.uuid(0);
  const PartyId first = PartyId::make(PartyKind::kTenant, 1), second = PartyId::make(PartyKind::kTenant, 2);
  const std::string show =
      "echo $(cat $CUDA_MPS_PIPE_DIRECTORY/control) $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; sleep 600";
  cut.node.server.send(cut.soft(1, first, show));
  CHECK(cut.output_of(1) == device + " 25\n");
  cut.node.server.send(cut.soft(2, first, "sleep 600"));
  cut.node.server.send(cut.soft(3, second, "sleep 600"));
  cut.node.server.wait_for_state({2}, LeaseState::kRunning);
  cut.node.server.wait_for_state({3}, LeaseState::kRunning);
  CHECK(cut.machine.daemon_runs(device, first));
  CHECK(cut.machine.daemon_runs(device, second));
  cut.end(1);
  CHECK(cut.machine.daemon_runs(device, first));
  cut.end(2);
  CHECK_FALSE(cut.machine.daemon_runs(device, first));
  CHECK(cut.machine.daemon_runs(device, second));
  cut.end(3);
  CHECK_FALSE(cut.machine.daemon_runs(device, second));
}

TEST_CASE("agent: a whole device is not given in parts") {
  CutNode cut;
  cut.machine.cut(1, "1g.10gb", 0);
  cut.node.start();
  wire::LeaseGrant grant = Node::grant(1, "echo $CUDA_VISIBLE_DEVICES");
  grant.slices.push_back({.device = {4}, .uuid = cut.machine.uuid(1), .vram = gibibytes(80)});
  grant.must_scrub = false;
  cut.node.server.send(grant);
  CHECK(cut.output_of(1) == cut.machine.uuid(1) + "\n");
  cut.node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(cut.machine.partitions(1).empty());
}

}  // namespace
}  // namespace tranche::agent
