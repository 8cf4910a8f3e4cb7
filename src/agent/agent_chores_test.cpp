// SPDX-License-Identifier: Apache-2.0
// What takes long beside a living agent: a wipe that does not end, an agent replaced in its middle.
#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <future>

#include "agent/test_node.hpp"

namespace tranche::agent {
namespace {

using wire::EndReason;
using wire::LeaseState;

// Wipes when the test says so, however long that takes.
class HeldScrubber final : public Scrubber {
 public:
  HeldScrubber(std::shared_future<void> go, std::atomic<int>& begun) : go_(std::move(go)), begun_(begun) {}
  void scrub(const wire::DeviceFacts&, Bytes slice, wire::ScrubReceipt& receipt) override {
    ++begun_;
    go_.wait();
    receipt.zeroed = receipt.verified = slice;
    receipt.method = "test";
  }

 private:
  std::shared_future<void> go_;
  std::atomic<int>& begun_;
};

wire::LeaseGrant sliced(std::uint64_t lease, std::uint64_t epoch = 1) {
  wire::LeaseGrant grant = Node::grant(lease, "true", epoch);
  grant.slices.push_back({.device = {3}, .uuid = "GPU-test", .vram = gibibytes(1), .milli = 500});
  return grant;
}

int heartbeats(const TestServer& server) {
  int count = 0;
  for (const wire::AgentFrame& frame : server.frames())
    count += frame.kind == wire::AgentMessageKind::kHeartbeat ? 1 : 0;
  return count;
}

int ends(const TestServer& server, LeaseId lease) {
  int count = 0;
  for (const wire::AgentFrame& frame : server.frames()) {
    const auto report = wire::open_frame<wire::LeaseReport>(frame);
    count += report && report->lease == lease && report->state == LeaseState::kEnded ? 1 : 0;
  }
  return count;
}

int scrubs(const TestServer& server) {
  std::size_t count = 0;
  for (const wire::AgentFrame& frame : server.frames())
    if (const auto receipts = wire::open_frame<wire::Receipts>(frame)) count += receipts->scrubs.size();
  return static_cast<int>(count);
}

TEST_CASE("agent: the end and the behaviour of a job are told before its slice is wiped; heartbeats go on") {
  std::promise<void> go;
  std::atomic<int> begun = 0;
  Node node;
  node.scrubber = [&, future = go.get_future().share()] {
    return std::make_unique<HeldScrubber>(future, begun);
  };
  node.start();
  node.server.send(sliced(1));
  while (begun == 0) std::this_thread::yield();
  const int before = heartbeats(node.server);
  while (heartbeats(node.server) < before + 5) std::this_thread::yield();
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).reason == EndReason::kExited);
  const auto behaved =
      node.server.wait_for<wire::Receipts>([](const auto& all) { return !all.behaviours.empty(); });
  CHECK(behaved.behaviours.front().lease == LeaseId{1});
  CHECK(scrubs(node.server) == 0);
  // The rest of the device, and what needs none, are served meanwhile.
  node.server.send(sliced(3));
  node.server.wait_for_state({3}, LeaseState::kRunning);
  node.server.send(Node::grant(2, "exit 4"));
  CHECK(node.server.wait_for_state({2}, LeaseState::kEnded).exit_code == 4);
  // And a link that breaks in between does not make the lease look lost.
  node.server.forget();
  node.server.drop();
  const auto hello = node.server.wait_for<wire::Hello>([](const auto&) { return true; });
  // The other one may be there too: it is told of until the server's word that it has its end was heard.
  CHECK(std::any_of(hello.running.begin(), hello.running.end(), [](const wire::RunningLease& running) {
    return running.lease == LeaseId{1};
  }));
  go.set_value();
  const auto receipts =
      node.server.wait_for<wire::Receipts>([](const auto& all) { return !all.scrubs.empty(); });
  CHECK(wire::is_clean(receipts.scrubs.front()));
  CHECK(receipts.scrubs.front().lease == LeaseId{1});
  CHECK(ends(node.server, {1}) == 0);  // Once is enough.
}

TEST_CASE("agent: one that is replaced in the middle of a wipe begins it again") {
  std::promise<void> go;
  std::atomic<int> begun = 0;
  Node node;
  node.scrubber = [&, future = go.get_future().share()] {
    return std::make_unique<HeldScrubber>(future, begun);
  };
  node.start();
  node.server.send(sliced(1));
  while (begun == 0) std::this_thread::yield();
  node.server.wait_for_state({1}, LeaseState::kEnded);  // Who waits for the job need not wait for the wipe.
  node.agent->stop();
  node.thread.join();  // Its turn is over: whatever the wipe finds now, nobody hears of it.
  go.set_value();
  node.agent.reset();
  CHECK(scrubs(node.server) == 0);
  node.server.forget();
  node.start();
  const auto receipts =
      node.server.wait_for<wire::Receipts>([](const auto& all) { return !all.scrubs.empty(); });
  CHECK(receipts.scrubs.front().lease == LeaseId{1});
  CHECK(begun == 2);
  CHECK(ends(node.server, {1}) == 0);
  node.stop();
  node.start();
  CHECK(begun == 2);  // Settled is settled.
}

TEST_CASE("agent: a device is given to nobody while it is wiped after a lease that ran out") {
  std::promise<void> go;
  std::atomic<int> begun = 0;
  Node node;
  node.server.behave(true, false, std::chrono::hours(1));  // Nothing renews the lease.
  node.scrubber = [&, future = go.get_future().share()] {
    return std::make_unique<HeldScrubber>(future, begun);
  };
  node.start();
  wire::LeaseGrant grant = sliced(1);
  grant.spec.run = "exec sleep infinity";
  grant.expires_in = std::chrono::milliseconds(200);
  node.server.send(grant);
  while (begun == 0) std::this_thread::yield();
  // The lease has run out, or the wipe would not have begun; the server gives the device to another.
  for (std::uint64_t lease = 2;; ++lease) {
    node.server.send(sliced(lease));
    const auto answer = node.server.wait_for<wire::LeaseReport>(
        [&](const wire::LeaseReport& report) { return report.lease == LeaseId{lease}; });
    if (answer.state != LeaseState::kRefused) continue;  // The agent had not looked at its clock yet.
    CHECK(answer.message.find("still being wiped") != std::string::npos);
    break;
  }
  go.set_value();
  CHECK(node.server.wait_for_state({1}, LeaseState::kEnded).reason == EndReason::kLeaseExpired);
}

}  // namespace
}  // namespace tranche::agent
