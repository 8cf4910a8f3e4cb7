// SPDX-License-Identifier: Apache-2.0
// Whole agents with real sandboxes, against a server's end that the test holds in its hand.
#include "agent/agent.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <optional>
#include <set>
#include <thread>

#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"
#include "agent/test_node.hpp"

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
using wire::EndReason;
using wire::LeaseState;

TEST_CASE("agent: a job runs in its sandbox, its words and its exit come back") {
  Node node;
  node.start();
  wire::LeaseGrant grant = Node::grant(1, "echo out $TRANCHE_LEASE $WORD $HUSH; echo err >&2; exit 3");
  grant.spec.envs = {{"WORD", "a b"}};
  grant.spec.secrets = {{"HUSH", "secret"}};
  node.server.send(grant);
  node.server.wait_for_state({1}, LeaseState::kRunning);
  const wire::LeaseReport end = node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(end.reason == EndReason::kExited);
  CHECK(end.exit_code == 3);
  const auto out = node.server.wait_for<wire::LogChunk>(
      [](const wire::LogChunk& chunk) { return chunk.stream == wire::LogStream::kStdout; });
  CHECK(out.bytes == "out lease_000001 a b secret\n");
  const auto err = node.server.wait_for<wire::LogChunk>(
      [](const wire::LogChunk& chunk) { return chunk.stream == wire::LogStream::kStderr; });
  CHECK(err.bytes == "err\n");
}

TEST_CASE("agent: the same grant twice starts once, an older epoch is refused") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "echo once; exec sleep infinity", 5));
  node.server.send(Node::grant(1, "echo twice", 5));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.server.send(Node::grant(1, "echo stale", 4));
  const auto refused = node.server.wait_for_state({1}, LeaseState::kRefused);
  CHECK(refused.epoch == 4);
  node.server.send(wire::LeaseRevoke{.lease = {1}, .epoch = 4, .way = wire::RevokeWay::kKill});
  node.server.send(wire::LeaseRevoke{.lease = {1},
                                     .epoch = 5,
                                     .way = wire::RevokeWay::kKill,
                                     .reason = EndReason::kPreempted,
                                     .message = "for others"});
  const auto end = node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(end.reason == EndReason::kPreempted);
  CHECK(end.message == "for others");
  std::string all;
  for (const auto& frame : node.server.frames())
    if (const auto chunk = wire::open_frame<wire::LogChunk>(frame)) all += chunk->bytes;
  CHECK(all.find("twice") == std::string::npos);
  CHECK(all.find("stale") == std::string::npos);
}

TEST_CASE("agent: the last words of a job come before its end") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "echo first; while [ ! -e /work/go ]; do sleep 0.02; done; echo last"));
  node.server.wait_for<wire::LogChunk>([](const auto& chunk) { return chunk.bytes == "first\n"; });
  node.stop();
  node.server.forget();
  const std::filesystem::path job = node.data / "leases/lease_000001";
  write_whole(job / "work/go", "", 0644);
  while (std::filesystem::exists(job / "work")) ::usleep(1000);  // Removed when the job is over.
  node.start();                                                  // Finds words and end at once.
  node.server.wait_for_state({1}, LeaseState::kEnded);
  std::string words;
  for (const auto& frame : node.server.frames()) {
    if (const auto chunk = wire::open_frame<wire::LogChunk>(frame)) words += chunk->bytes;
    const auto report = wire::open_frame<wire::LeaseReport>(frame);
    if (report && report->state == LeaseState::kEnded) break;
  }
  CHECK(words.find("last\n") != std::string::npos);
}

TEST_CASE("agent: a job gets its checkpoint signal and may end in its own way") {
  Node node;
  node.start();
  wire::LeaseGrant grant = Node::grant(1,
                                       "trap 'echo saved > $TRANCHE_CHECKPOINT_DIR/state; exit 0' USR1; echo "
                                       "ready; while :; do sleep 0.05; done");
  grant.spec.checkpoint = wire::Checkpoint{};
  node.server.send(grant);
  node.server.wait_for<wire::LogChunk>([](const auto& chunk) { return chunk.bytes == "ready\n"; });
  node.server.send(wire::LeaseRevoke{
      .lease = {1}, .epoch = 1, .reason = EndReason::kPreempted, .grace = 1h, .message = "moved"});
  node.server.wait_for_state({1}, LeaseState::kStopping);
  const auto end = node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(end.reason == EndReason::kPreempted);
  CHECK(end.exit_code == 0);
  CHECK(end.checkpoint.has_value());
}

TEST_CASE("agent: a job that is stopped while its shell is about to start the program uses up no grace") {
  Node node;
  node.start();
  wire::LeaseGrant grant =
      Node::grant(1, "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; sleep 600; exit $?");
  grant.spec.checkpoint = wire::Checkpoint{.signal = "SIGTERM"};
  node.server.send(grant);
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.server.send(
      wire::LeaseRevoke{.lease = {1}, .epoch = 1, .reason = EndReason::kPreempted, .grace = 30s});
  const auto end = node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(end.reason == EndReason::kPreempted);
  CHECK(end.exit_code == 128 + SIGTERM);  // And not of a kill.
}

TEST_CASE("agent: what a gang saved outlives its members, until the server has no more use for it") {
  Node node;
  node.start();
  const std::filesystem::path saved = node.data / "checkpoints/job_000001";
  node.server.send(Node::grant(1, "echo saved > /checkpoint/state"));
  wire::LeaseGrant slow = Node::grant(2, "while [ ! -e /checkpoint/go ]; do sleep 0.02; done");
  slow.job = {1};
  node.server.send(slow);
  node.server.wait_for_state({1}, LeaseState::kEnded);
  node.server.wait_for_state({2}, LeaseState::kRunning);
  node.server.send(wire::SavedInVain{.jobs = {{1}}});  // A word too early is not believed.
  write_whole(saved / "go", "", 0644);
  CHECK(node.server.wait_for_state({2}, LeaseState::kEnded).exit_code == 0);
  node.server.wait_for<wire::SavedJobs>(
      [](const auto& kept) { return kept.jobs == std::vector<JobId>{{1}}; });
  CHECK(std::filesystem::exists(saved / "state"));
  node.server.send(wire::SavedInVain{.jobs = {{1}}});
  while (std::filesystem::exists(saved)) ::usleep(1000);
}

TEST_CASE("agent: pause stops every process, resume lets them go on") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "echo ready; read line < /work/pipe 2>/dev/null; exec sleep infinity"));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.server.send(wire::LeaseRevoke{.lease = {1}, .epoch = 1, .way = wire::RevokeWay::kPause});
  node.server.wait_for_state({1}, LeaseState::kPaused);
  node.server.forget();
  node.server.send(wire::LeaseRevoke{.lease = {1}, .epoch = 1, .way = wire::RevokeWay::kResume});
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.server.send(wire::LeaseRevoke{.lease = {1}, .epoch = 1, .way = wire::RevokeWay::kKill});
  node.server.wait_for_state({1}, LeaseState::kEnded);
}

TEST_CASE("agent: nothing is lost nor said twice over broken links") {
  Node node;
  node.start();
  node.server.behave(false, true, 1h);  // Takes nothing in for good.
  node.server.send(Node::grant(1, "echo first"));
  node.server.wait_for_state({1}, LeaseState::kEnded);
  node.server.forget();
  node.server.drop();
  node.server.wait_for_state({1}, LeaseState::kEnded);  // Once more, because nobody said it was held.
  std::vector<std::uint64_t> sequences;
  for (const auto& frame : node.server.frames())
    if (frame.sequence != 0) sequences.push_back(frame.sequence);
  CHECK(std::set<std::uint64_t>(sequences.begin(), sequences.end()).size() == sequences.size());
  CHECK(sequences.front() == 1);
  node.server.behave(true, true, 1h);
  node.server.forget();
  node.server.drop();
  node.server.wait_for_state({1}, LeaseState::kEnded);
  node.server.wait_for<wire::Heartbeat>([](const auto&) { return true; });
  node.server.forget();
  node.server.drop();
  node.server.wait_for<wire::Heartbeat>([](const auto&) { return true; });
  for (const auto& frame : node.server.frames()) CHECK(frame.sequence == 0);  // Held now: never again.
}

TEST_CASE("agent: the next agent goes on with what the last one left running") {
  Node node;
  node.start();
  node.server.send(
      Node::grant(1, "echo before; while [ ! -e /checkpoint/go ]; do sleep 0.02; done; echo after; exit 7"));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.stop();
  node.start();
  const auto hello = node.server.wait_for<wire::Hello>([](const auto&) { return true; });
  REQUIRE(hello.running.size() == 1);
  CHECK(hello.running.front().lease == LeaseId{1});
  CHECK(hello.running.front().state == LeaseState::kRunning);
  write_whole(node.data / "checkpoints/job_000001/go", "", 0644);
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).exit_code == 7);
  node.server.wait_for<wire::LogChunk>([](const auto& chunk) { return chunk.bytes.ends_with("after\n"); });
}

TEST_CASE("agent: what ended while no agent was there is told by the next") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "while [ ! -e /checkpoint/go ]; do sleep 0.02; done; exit 9"));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.stop();
  const auto page = LeaseFolder::open(node.data / "leases/lease_000001");
  REQUIRE(page.has_value());
  write_whole(node.data / "checkpoints/job_000001/go", "", 0644);
  while (phase_of(page->page()) != JobPhase::kEnded) ::usleep(1000);
  node.start();
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).exit_code == 9);
}

TEST_CASE("agent: without an answer the lease runs out, and the job is ended") {
  Node node;
  node.server.behave(true, false, 1h);
  node.start();
  wire::LeaseGrant grant = Node::grant(1, "exec sleep infinity");
  grant.expires_in = 200ms;
  node.server.send(grant);
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).reason == EndReason::kLeaseExpired);
}

TEST_CASE("agent: a lease ends by itself even when its agent is gone") {
  Node node;
  node.server.behave(true, false, 1h);
  node.start();
  wire::LeaseGrant grant = Node::grant(1, "exec sleep infinity");
  grant.expires_in = 1s;
  node.server.send(grant);
  node.server.wait_for<wire::LeaseReport>([](const auto&) { return true; });
  node.stop();
  const auto page = LeaseFolder::open(node.data / "leases/lease_000001");
  REQUIRE(page.has_value());
  while (phase_of(page->page()) != JobPhase::kEnded) ::usleep(1000);
  CHECK(static_cast<EndReason>(page->page().reason.load()) == EndReason::kLeaseExpired);
}

TEST_CASE("agent: a supervisor that is killed takes its job along, and that is the node's fault") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "exec sleep infinity"));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  const auto page = LeaseFolder::open(node.data / "leases/lease_000001");
  REQUIRE(page.has_value());
  const int init = static_cast<int>(page->page().init.load());
  ::kill(static_cast<int>(page->page().supervisor.load()), SIGKILL);
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).reason == EndReason::kNodeFault);
  while (!gone(init)) ::usleep(1000);
}

TEST_CASE("agent: a command beside the job sees the job's world, and not more") {
  Node node;
  node.start();
  node.server.send(Node::grant(1, "echo here > /work/file; exec sleep infinity"));
  node.server.wait_for_state({1}, LeaseState::kRunning);
  node.server.send(wire::SessionOpen{
      .session = 4,
      .lease = {1},
      .epoch = 1,
      .command = {"/bin/sh",
                  "-c",
                  "cat /work/file; id -u; grep -c . /proc/net/dev; grep CapEff /proc/self/status; "
                  "grep Seccomp: /proc/self/status; cat; exit 6"}});
  node.server.send(wire::SessionData{.session = 4, .bytes = "through the pipe\n"});
  node.server.send(wire::SessionData{.session = 4});
  const auto end = node.server.wait_for<wire::SessionEnd>([](const auto&) { return true; });
  CHECK(end.exit_code == 6);
  std::string all;
  for (const auto& frame : node.server.frames())
    if (const auto data = wire::open_frame<wire::SessionData>(frame)) all += data->bytes;
  CHECK(all.find("here\n1000\n3\n") != std::string::npos);
  CHECK(all.find("CapEff:\t0000000000000000") != std::string::npos);
  CHECK(all.find("Seccomp:\t2") != std::string::npos);
  CHECK(all.ends_with("through the pipe\n"));
  node.server.send(wire::SessionOpen{.session = 5,
                                     .lease = {1},
                                     .epoch = 1,
                                     .command = {"/bin/sh", "-c", "test -t 0 && stty size"},
                                     .terminal = true,
                                     .rows = 40,
                                     .columns = 100});
  CHECK(node.server.wait_for<wire::SessionEnd>([](const auto& e) { return e.session == 5; }).exit_code == 0);
  node.server.send(wire::LeaseRevoke{.lease = {1}, .epoch = 1, .way = wire::RevokeWay::kKill});
  node.server.wait_for_state({1}, LeaseState::kEnded);
}

TEST_CASE("agent: what a node cannot do is refused with the reason") {
  Node node;
  node.start();
  wire::LeaseGrant grant = Node::grant(1, "true");
  grant.spec.network = wire::Network::kInternet;
  node.server.send(grant);
  CHECK(node.server.wait_for_state({1}, LeaseState::kRefused).message.find("no network") !=
        std::string::npos);
  grant = Node::grant(2, "true");
  grant.slices.push_back({.device = {9}, .uuid = "GPU-of-somebody-else"});
  node.server.send(grant);
  CHECK(node.server.wait_for_state({2}, LeaseState::kRefused).message.find("no device") != std::string::npos);
  // Refused where jobs are submitted, and here again: a node believes nobody.
  grant = Node::grant(3, "true");
  grant.spec.checkpoint = wire::Checkpoint{.path = "/etc"};
  node.server.send(grant);
  CHECK(node.server.wait_for_state({3}, LeaseState::kRefused).message.find("/etc") != std::string::npos);
}

TEST_CASE("agent: a simulated node runs nothing, says so, and still keeps its books") {
  Node node;
  node.simulated = true;
  node.start();
  CHECK(node.server.wait_for<wire::Hello>([](const auto&) { return true; }).simulated);
  wire::LeaseGrant grant = Node::grant(1, "touch /tmp/must-not-happen");
  grant.spec.labels = {{"sim.duration", "50ms"}};
  grant.slices.push_back({.device = {3}, .uuid = "GPU-test", .vram = gibibytes(1), .milli = 500});
  node.server.send(grant);
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).reason == EndReason::kExited);
  const auto meter = node.server.wait_for<wire::MeterReport>([](const auto&) { return true; });
  REQUIRE(meter.records.size() == 1);
  CHECK(meter.records.front().to - meter.records.front().from >= 50ms);
  const auto receipts = node.server.wait_for<wire::Receipts>([](const auto&) { return true; });
  CHECK(receipts.scrubs.front().method == "SIMULATED");
  const auto log = node.server.wait_for<wire::LogChunk>([](const auto&) { return true; });
  CHECK(log.bytes.starts_with("SIMULATED"));
}

}  // namespace
}  // namespace tranche::agent
