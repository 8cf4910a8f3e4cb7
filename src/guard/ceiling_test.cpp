// SPDX-License-Identifier: Apache-2.0
// Ceilings, played in virtual time against a device that serves one kernel after the other.
#include "guard/ceiling.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

#include "guard/gate.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

struct Stall {
  std::uint64_t at = 0;
  std::uint64_t ns = 0;
};
struct Run {
  std::uint64_t began = 0;
  std::uint64_t ended = 0;
};

// A tenant that keeps up to nine kernels in flight, on a host that stands still now and then.
class Play {
 public:
  Play(std::uint32_t percent, std::vector<Stall> stalls) : stalls_(std::move(stalls)) {
    control_->devices[0].mode.store(static_cast<std::uint32_t>(ShareMode::kCap));
    control_->devices[0].lanes[0].share.store(percent * 100);
    control_->devices[0].lanes[0].gate.store(static_cast<std::uint32_t>(Gate::kAlone));
  }

  void until(std::uint64_t end, std::uint64_t kernel_ns) {
    LaneGate gate(*control_, *ledger_, 0, Lane::kCompute);
    while (now_ < end) {
      if (runs_.size() >= kInFlight) let_pass(runs_[runs_.size() - kInFlight].ended);
      const Verdict verdict = gate.try_pass(kernel_ns, now_);
      if (verdict.passage == Passage::kPassed) {
        const std::uint64_t began = std::max(now_, runs_.empty() ? 0 : runs_.back().ended);
        runs_.push_back({began, began + kernel_ns});
        let_pass(now_ + 5'000);
        continue;
      }
      const std::uint64_t due = now_ + verdict.sleep_ns;
      let_pass(due);
      if (verdict.only_time && now_ > due) gate.woken_late(now_ - due);
      let_pass(now_ + 60'000);
    }
  }
  void idle_until(std::uint64_t when) { let_pass(when); }
  // One kernel every so often, well below the share.
  void lightly_until(std::uint64_t end, std::uint64_t kernel_ns, std::uint64_t every_ns) {
    LaneGate gate(*control_, *ledger_, 0, Lane::kCompute);
    for (; now_ < end; let_pass(now_ + every_ns))
      if (gate.try_pass(kernel_ns, now_).passage == Passage::kPassed)
        runs_.push_back({now_, now_ + kernel_ns});
  }

  // Device time inside a window, in percent of it.
  [[nodiscard]] double busy(std::uint64_t from, std::uint64_t ns) const {
    std::uint64_t sum = 0;
    for (const Run& run : runs_) {
      const std::uint64_t began = std::max(run.began, from);
      const std::uint64_t ended = std::min(run.ended, from + ns);
      sum += ended > began ? ended - began : 0;
    }
    return 100.0 * static_cast<double>(sum) / static_cast<double>(ns);
  }
  // Over all windows of a second, wherever they begin.
  [[nodiscard]] double most_of_a_second(std::uint64_t from, std::uint64_t until) const {
    double most = 0;
    for (std::uint64_t at = from; at + 1'000 * kMs <= until; at += 5 * kMs)
      most = std::max(most, busy(at, 1'000 * kMs));
    return most;
  }

 private:
  static constexpr std::size_t kInFlight = 9;

  // Time passes; a host that stands still comes back when the stall is over.
  void let_pass(std::uint64_t when) {
    now_ = std::max(now_, when);
    for (const Stall& stall : stalls_)
      if (now_ >= stall.at && now_ < stall.at + stall.ns) now_ = stall.at + stall.ns;
  }

  std::unique_ptr<ControlRegion> control_ = std::make_unique<ControlRegion>();
  std::unique_ptr<LedgerRegion> ledger_ = std::make_unique<LedgerRegion>();
  std::vector<Stall> stalls_;
  std::vector<Run> runs_;
  std::uint64_t now_ = 0;
};

// A second that ends in a stall cannot hold what comes after it, so the least is asked of those that begin in
// one.
TEST_CASE(
    "ceiling: what a host that stands still takes a capped job comes back, and no second holds too much") {
  for (const std::uint32_t percent : {10U, 30U, 50U, 70U, 90U}) {
    for (const std::uint64_t stall_ms : {30U, 60U, 90U, 120U}) {
      std::vector<Stall> stalls;
      for (std::uint64_t at = 3'333; at < 12'000; at += 2'777) stalls.push_back({at * kMs, stall_ms * kMs});
      Play play(percent, stalls);
      play.until(13'000 * kMs, 2 * kMs);
      INFO("cap " << percent << ", stalls of " << stall_ms << " ms");
      for (const Stall& stall : stalls) CHECK(play.busy(stall.at, 1'000 * kMs) > percent - 5.0);
      CHECK(play.most_of_a_second(1'000 * kMs, 13'000 * kMs) < percent + 5.0);
      CHECK(play.busy(1'600 * kMs, 10'000 * kMs) > percent - 0.5);
      CHECK(play.busy(1'600 * kMs, 10'000 * kMs) < percent + 0.5);
    }
  }
}

TEST_CASE("ceiling: what was not wanted is gone, however late its host") {
  for (const std::uint32_t percent : {30U, 90U}) {
    Play play(percent, {{4'000 * kMs, 120 * kMs}});
    play.until(3'000 * kMs, 2 * kMs);
    play.idle_until(6'000 * kMs);
    play.until(9'000 * kMs, 2 * kMs);
    const double allowed = percent + 100.0 * static_cast<double>(kCeilingBurstNs + 2 * kMs) / 3e9;
    CHECK(play.busy(6'000 * kMs, 3'000 * kMs) <= allowed);
    CHECK(play.most_of_a_second(6'000 * kMs, 9'000 * kMs) < percent + 5.0);
  }
}

TEST_CASE("ceiling: who asks for less than its share for long saves up no more than a burst") {
  for (const std::uint64_t every_ms : {5U, 40U, 700U}) {
    Play play(30, {});
    play.lightly_until(120'000 * kMs, kMs, every_ms * kMs);
    const std::uint64_t from = 120'700 * kMs;
    play.idle_until(from);
    play.until(from + 3'000 * kMs, 2 * kMs);
    INFO("a kernel every " << every_ms << " ms");
    CHECK(play.busy(from, 3'000 * kMs) <= 30 + 100.0 * static_cast<double>(kCeilingBurstNs + 2 * kMs) / 3e9);
  }
}

TEST_CASE("ceiling: what its host kept a job from is gone once the job wanted nothing for a second") {
  Play play(90, {{3'000 * kMs, 120 * kMs}});
  play.until(3'121 * kMs, 2 * kMs);
  play.idle_until(9'000 * kMs);
  play.until(12'000 * kMs, 2 * kMs);
  CHECK(play.busy(9'000 * kMs, 3'000 * kMs) <=
        90 + 100.0 * static_cast<double>(kCeilingBurstNs + 2 * kMs) / 3e9);
}

TEST_CASE(
    "ceiling: a job that writes what it likes into its ledger saves up no more than a burst beyond its "
    "share") {
  auto control = std::make_unique<ControlRegion>();
  auto ledger = std::make_unique<LedgerRegion>();
  LaneLedger& used = ledger->devices[0].lanes[0];
  control->devices[0].lanes[0].share.store(5'000);
  used.kept_off_ns.store(UINT64_MAX);
  for (AtomicPair& look : used.saved) look.replace(look.load(), {59'000 * kMs, UINT64_MAX});
  Ceiling ceiling(control->devices[0].lanes[0], used);
  CHECK(ceiling.left(60'000 * kMs) <= static_cast<std::int64_t>(kCeilingBurstNs + kKeptOffMaxNs));
}

}  // namespace
}  // namespace tranche::guard
