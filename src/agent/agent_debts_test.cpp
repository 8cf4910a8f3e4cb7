// SPDX-License-Identifier: Apache-2.0
// Wipes that wait while one tenant has a device for itself, on a living agent: nobody else ever finds
// anything.
#include <atomic>
#include <doctest/doctest.h>
#include <future>

#include "agent/test_memory.hpp"
#include "agent/test_node.hpp"

namespace tranche::agent {
namespace {

using wire::LeaseState;

constexpr std::size_t kBytes = 1U << 20U;
constexpr PartyId kAcme{8}, kOther{9};

class CountedScrubber final : public Scrubber {
 public:
  CountedScrubber(DirtyMemory& memory,
                  std::atomic<int>& wipes,
                  const std::atomic<bool>& broken,
                  std::shared_future<void> go)
      : memory_(memory), wipes_(wipes), broken_(broken), go_(std::move(go)) {}
  void scrub(const wire::DeviceFacts&, Bytes, wire::ScrubReceipt& receipt) override {
    ++wipes_;
    go_.wait();
    receipt.method = "stand-in";
    if (broken_) return;  // Nothing is zeroed, and nothing verified.
    receipt.nonzero_bytes = memory_.zero_and_count();
    receipt.zeroed = receipt.verified = {memory_.bytes()};
  }

 private:
  DirtyMemory& memory_;
  std::atomic<int>& wipes_;
  const std::atomic<bool>& broken_;
  std::shared_future<void> go_;
};

struct SharedDevice : Node {
  DirtyMemory memory{kBytes};
  std::atomic<int> wipes = 0;
  std::atomic<bool> broken = false;
  std::promise<void> go;

  SharedDevice() {
    scrubber = [this, future = go.get_future().share()] {
      return std::make_unique<CountedScrubber>(memory, wipes, broken, future);
    };
    start();
  }
  void slice(std::uint64_t lease, PartyId tenant, const std::string& run) {
    wire::LeaseGrant given = grant(lease, run);
    given.tenant = tenant;
    given.slices.push_back({.device = {3}, .uuid = "GPU-test", .vram = gibibytes(1), .milli = 300});
    server.send(given);
  }
  // Acme runs on it with lease 1, and owes the wipe of lease 2.
  void leave_a_debt() {
    slice(1, kAcme, "exec sleep infinity");
    server.wait_for_state({1}, LeaseState::kRunning);
    slice(2, kAcme, "true");
    CHECK(receipt(2, true).deferred);
  }
  wire::ScrubReceipt receipt(std::uint64_t lease, bool deferred) {
    wire::ScrubReceipt found;
    server.wait_for<wire::Receipts>([&](const wire::Receipts& all) {
      for (const wire::ScrubReceipt& one : all.scrubs) {
        if (one.lease != LeaseId{lease} || one.deferred != deferred) continue;
        found = one;
        return true;
      }
      return false;
    });
    return found;
  }
  bool told(std::uint64_t lease, LeaseState state) {
    for (const wire::AgentFrame& frame : server.frames()) {
      const auto report = wire::open_frame<wire::LeaseReport>(frame);
      if (report && report->lease == LeaseId{lease} && report->state == state) return true;
    }
    return false;
  }
};

TEST_CASE("agent: a tenant alone on a device gets its slice back unwiped, and nobody else does") {
  SharedDevice node;
  node.slice(1, kAcme, "exec sleep infinity");
  node.server.wait_for_state({1}, LeaseState::kRunning);
  for (const std::uint64_t lease : {2U, 3U}) {
    node.slice(lease, kAcme, "true");
    node.server.wait_for_state({lease}, LeaseState::kEnded);
    CHECK_FALSE(wire::is_clean(node.receipt(lease, true)));
    node.memory.fill(canary_of({lease}));
  }
  CHECK(node.wipes == 0);
  node.slice(4, kOther, "exec sleep infinity");
  while (node.wipes == 0) std::this_thread::yield();
  CHECK_FALSE(node.told(4, LeaseState::kRunning));  // Not before all is wiped.
  node.go.set_value();
  node.server.wait_for_state({4}, LeaseState::kRunning);
  CHECK(node.memory.find(canary_of({3})) == 0);
  CHECK(node.wipes == 1);
  for (const std::uint64_t lease : {2U, 3U}) CHECK(wire::is_clean(node.receipt(lease, false)));
  // Now there are two tenants: what one leaves is wiped at once.
  node.slice(5, kAcme, "true");
  CHECK(wire::is_clean(node.receipt(5, false)));
  CHECK(node.wipes == 2);
}

TEST_CASE("agent: nobody starts where what others left could not be wiped") {
  SharedDevice node;
  node.go.set_value();
  node.leave_a_debt();
  node.broken = true;
  node.slice(3, kOther, "exec sleep infinity");
  node.server.wait_for_state({3}, LeaseState::kEnded);
  CHECK_FALSE(node.told(3, LeaseState::kRunning));
  CHECK_FALSE(wire::is_clean(node.receipt(2, false)));
  node.broken = false;  // It was reset: the debt is paid after all.
  node.slice(4, kOther, "exec sleep infinity");
  node.server.wait_for_state({4}, LeaseState::kRunning);
}

TEST_CASE("agent: what is owed is wiped when the device falls idle") {
  SharedDevice node;
  node.go.set_value();
  node.leave_a_debt();
  CHECK(node.wipes == 0);
  node.server.send(wire::LeaseRevoke{
      .lease = {1}, .epoch = 1, .way = wire::RevokeWay::kKill, .reason = wire::EndReason::kStopped});
  node.server.wait_for_state({1}, LeaseState::kEnded);
  CHECK(wire::is_clean(node.receipt(2, false)));
  CHECK(wire::is_clean(node.receipt(1, false)));
}

TEST_CASE("agent: what is owed outlives the agent") {
  SharedDevice node;
  node.go.set_value();
  node.leave_a_debt();
  node.stop();
  node.memory.fill(canary_of({2}));
  node.start();
  node.slice(3, kOther, "exec sleep infinity");
  node.server.wait_for_state({3}, LeaseState::kRunning);
  CHECK(node.memory.find(canary_of({2})) == 0);
}

}  // namespace
}  // namespace tranche::agent
