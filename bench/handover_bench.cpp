// SPDX-License-Identifier: Apache-2.0
// A whole device changes hands hundreds of times: the engine decides who gets it and when it is wiped, a
// living agent runs the jobs and wipes. Each tenant fills the memory of a stand-in that gives everything back
// dirty, and looks for what the one before wrote.
#include <chrono>
#include <stdexcept>

#include "agent/test_memory.hpp"
#include "agent/test_node.hpp"
#include "bench/bench.hpp"
#include "engine/handover.hpp"
#include "engine/world.hpp"

namespace tranche::bench {
namespace {

using agent::MemoryScrubber;

constexpr std::size_t kBytes = 4U << 20U;

class HandOvers {
 public:
  explicit HandOvers(MemoryScrubber::Way way) : memory_(kBytes) {
    for (const char* name : {"acme", "beta"})
      users_.push_back(engine_.user(engine_.create(PartyKind::kTenant, kPlatform, name), "user"));
    node_ = engine_.node("gpu-01", 1);
    machine_.scrubber = [this, way] { return std::make_unique<MemoryScrubber>(memory_, way); };
    machine_.start();
  }

  // Bytes that tenants found of the tenant before them, in so many hand-overs.
  std::uint64_t run(int count) {
    constexpr auto kPatience = std::chrono::minutes(5);
    constexpr int kBetweenWords = 100;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    int told = 0;
    pass();
    while (handed_over_ < count) {
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("only " + std::to_string(handed_over_) + " hand-overs in five minutes");
      if (handed_over_ >= told + kBetweenWords)
        progress("handover: " + std::to_string(told = handed_over_) + " of " + std::to_string(count));
      while (waiting_ < 2) {  // They take turns.
        engine_.submit(users_[turn_++ % users_.size()], engine::gpus(1));
        ++waiting_;
        pass();
      }
      for (const wire::AgentFrame& frame : machine_.server.take_frames()) take(frame);
      std::this_thread::yield();
    }
    return found_;
  }
  [[nodiscard]] int unproven() const { return unproven_; }

 private:
  void take(const wire::AgentFrame& frame) {
    if (const auto report = wire::open_frame<wire::LeaseReport>(frame)) {
      if (report->state == wire::LeaseState::kRunning) act(report->lease);
      follow(engine_.run(engine::ReportLease{.node = node_, .report = *report}));
    } else if (const auto receipts = wire::open_frame<wire::Receipts>(frame)) {
      follow(engine_.run(engine::KeepReceipts{.node = node_, .receipts = *receipts}));
    }
    pass();
  }
  // The tenant's own program, while its lease runs.
  void act(LeaseId lease) {
    // A tenant that follows upon itself finds what is its own.
    const auto& leases = engine_.state.leases;
    if (last_ != LeaseId{} && leases.at(last_).tenant != leases.at(lease).tenant) {
      found_ += memory_.find(agent::canary_of(last_));
      if (!leases.at(last_).scrubbed) ++unproven_;
      ++handed_over_;
    }
    memory_.fill(agent::canary_of(lease));
    last_ = lease;
  }
  void pass() {
    while (engine::schedule_due(engine_.state, engine_.clock)) {
      const auto decision = engine_.run(engine::Schedule{});
      follow(decision);
      if (!decision || decision->empty()) return;
    }
  }
  // As the server tells its nodes.
  void follow(const engine::Decision& decision) {
    if (!decision) return;
    for (const engine::Event& event : *decision) {
      if (const auto* granted = std::get_if<engine::LeaseGranted>(&event)) grant(*granted);
      if (const auto* ordered = std::get_if<engine::DeviceOrdered>(&event))
        machine_.server.send(wire::DeviceOrder{.order = ordered->order,
                                               .device = ordered->device,
                                               .uuid = "GPU-test",
                                               .task = ordered->task,
                                               .level = ordered->level,
                                               .lease = ordered->lease});
    }
  }
  void grant(const engine::LeaseGranted& granted) {
    const engine::Lease& lease = engine_.state.leases.at(granted.id);
    wire::LeaseGrant out = agent::Node::grant(granted.id.value, "true", granted.epoch);
    out.tenant = granted.tenant;
    out.must_scrub = !engine::has_whole_devices(engine_.state, lease);
    for (const engine::Slice& slice : lease.slices)
      out.slices.push_back(
          {.device = slice.device, .uuid = "GPU-test", .vram = {slice.vram}, .milli = slice.milli});
    machine_.server.send(out);
    --waiting_;
  }

  agent::DirtyMemory memory_;
  agent::Node machine_;
  engine::World engine_;
  std::vector<PartyId> users_;
  NodeId node_{};
  std::size_t turn_ = 0;
  int waiting_ = 0;
  LeaseId last_{};
  int handed_over_ = 0;
  int unproven_ = 0;  // Granted to another tenant before the receipt.
  std::uint64_t found_ = 0;
};

}  // namespace

std::vector<Row> handover_rows() {
  constexpr int kHandOvers = 500;
  constexpr int kWithout = 20;
  std::vector<Row> rows;
  {
    progress("handover: a device changes hands " + std::to_string(kHandOvers) + " times");
    HandOvers wiped(MemoryScrubber::Way::kWipes);
    const auto found = static_cast<double>(wiped.run(kHandOvers));
    const std::string of = " in 500 hand-overs of a whole device, engine and agent";
    rows.push_back(
        {.what = "bytes of the tenant before found" + of + " (stand-in memory that comes back dirty)",
         .value = found,
         .unit = "bytes",
         .goal = 0.5,  // None.
         .better = Better::kLower});
    rows.push_back({.what = "grants to another tenant without a receipt" + of,
                    .value = static_cast<double>(wiped.unproven()),
                    .unit = "grants",
                    .goal = 0.5,
                    .better = Better::kLower});
  }
  progress("handover: with the wipe left out, " + std::to_string(kWithout) + " times");
  HandOvers left_out(MemoryScrubber::Way::kOnlySaysSo);
  rows.push_back({.what = "the same 20 times with the wipe left out: found, so the test can fail",
                  .value = static_cast<double>(left_out.run(kWithout)),
                  .unit = "bytes",
                  .goal = 1});
  return rows;
}

}  // namespace tranche::bench
