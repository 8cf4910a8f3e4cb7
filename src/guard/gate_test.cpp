// SPDX-License-Identifier: Apache-2.0
#include "guard/gate.hpp"

#include <doctest/doctest.h>
#include <memory>

#include "guard/kernel_times.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

// Regions of a tenant with one device; the test plays the broker.
struct Lab {
  std::unique_ptr<ControlRegion> control = std::make_unique<ControlRegion>();
  std::unique_ptr<LedgerRegion> ledger = std::make_unique<LedgerRegion>();
  LaneControl& rules() { return control->devices[0].lanes[0]; }
  LaneLedger& used() { return ledger->devices[0].lanes[0]; }
  LaneGate gate() { return {*control, *ledger, 0, Lane::kCompute}; }
};

Lab lab_with(ShareMode mode, std::uint32_t share, Gate gate) {
  Lab lab;
  lab.control->devices[0].mode.store(static_cast<std::uint32_t>(mode));
  lab.rules().share.store(share);
  lab.rules().gate.store(static_cast<std::uint32_t>(gate));
  return lab;
}

// Plays `total_ns` of wall time: launches kernels of `kernel_ns` whenever the gate opens, and beats for the
// broker. Returns the device time that passed, counted here and not by the gate.
std::uint64_t play(
    Lab& lab, std::uint64_t from, std::uint64_t total_ns, std::uint64_t kernel_ns, bool beat = true) {
  std::uint64_t launched = 0;
  std::uint64_t now = from;
  LaneGate gate = lab.gate();
  while (now < from + total_ns) {
    if (beat) lab.control->heartbeat_at.store(now);
    const Verdict verdict = gate.try_pass(kernel_ns, now);
    if (verdict.passage == Passage::kPassed) {
      launched += kernel_ns;
      now += 5'000;
    } else {
      now += verdict.sleep_ns + 60'000;  // A host wakes late.
    }
  }
  return launched;
}

TEST_CASE("gate: a cap is held for short and long kernels alike, late wake-ups included") {
  for (const std::uint32_t percent : {10U, 30U, 50U, 70U, 90U}) {
    for (const std::uint64_t kernel : {kMs / 10, 2 * kMs, 20 * kMs}) {
      Lab lab = lab_with(ShareMode::kCap, percent * 100, Gate::kAlone);
      const std::uint64_t used = play(lab, 0, 10'000 * kMs, kernel);
      const double share = static_cast<double>(used) / (10'000.0 * kMs) * 100;
      INFO("cap " << percent << " kernel ns " << kernel << " got " << share);
      CHECK(share > percent - 1.0);
      CHECK(share < percent + 1.0);
    }
  }
}

TEST_CASE("gate: time a capped job did not use is lost beyond a small burst") {
  Lab lab = lab_with(ShareMode::kCap, 5000, Gate::kAlone);
  CHECK(lab.gate().ceiling_left(60'000 * kMs) == static_cast<std::int64_t>(kCeilingBurstNs));
  const std::uint64_t used = play(lab, 60'000 * kMs, 1000 * kMs, 2 * kMs);
  CHECK(used <= 500 * kMs + kCeilingBurstNs + 2 * kMs);
}

TEST_CASE("gate: alone and fair passes everything, and counts it") {
  Lab lab = lab_with(ShareMode::kFair, 3000, Gate::kAlone);
  lab.control->heartbeat_at.store(kMs);
  LaneGate gate = lab.gate();
  for (int i = 0; i < 1000; ++i) CHECK(gate.try_pass(20 * kMs, kMs).passage == Passage::kPassed);
  CHECK(charged_ns(lab.used()) == 20'000 * kMs);
}

TEST_CASE("gate: a broker that went silent leaves the share as a ceiling, never unlimited") {
  for (const Gate gate : {Gate::kAlone, Gate::kArbitrated, Gate::kOwnCap}) {
    Lab lab = lab_with(ShareMode::kFair, 3000, gate);
    const std::uint64_t late = 100'000 * kMs;
    const std::uint64_t used = play(lab, late, 10'000 * kMs, 2 * kMs, false);
    CHECK(used > 2900 * kMs);
    CHECK(used < 3100 * kMs);
  }
}

TEST_CASE("gate: an arbitrated lane spends its grant, overruns once, and then asks the broker") {
  Lab lab = lab_with(ShareMode::kFair, 3000, Gate::kArbitrated);
  lab.control->heartbeat_at.store(1);
  lab.rules().granted_ns.store(3 * kMs);
  LaneGate gate = lab.gate();
  CHECK(gate.try_pass(2 * kMs, 1).passage == Passage::kPassed);
  CHECK(gate.try_pass(20 * kMs, 1).passage == Passage::kPassed);
  const Verdict verdict = gate.try_pass(1, 1);
  CHECK(verdict.passage == Passage::kWait);
  CHECK(verdict.wants_broker);
  gate.correct(-20 * static_cast<std::int64_t>(kMs), 0);  // It was far shorter than predicted.
  CHECK(gate.try_pass(1, 1).passage == Passage::kPassed);
}

TEST_CASE("gate: a paused job waits and an ended one is told so") {
  Lab lab = lab_with(ShareMode::kUnlimited, 10'000, Gate::kAlone);
  lab.control->heartbeat_at.store(1);
  lab.control->devices[0].flags.store(kPaused);
  CHECK(lab.gate().try_pass(1, 1).passage == Passage::kWait);
  lab.control->devices[0].flags.store(0);
  CHECK(lab.gate().try_pass(1, 1).passage == Passage::kPassed);
  lab.control->end_at.store(5 * kMs);
  CHECK(lab.gate().try_pass(1, 5 * kMs - 1).passage == Passage::kPassed);
  CHECK(lab.gate().try_pass(1, 5 * kMs).passage == Passage::kEnded);
}

TEST_CASE("kernel times: what a measure says is charged for all launches it stands for") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  std::uint32_t covered = 0;
  REQUIRE(times->measure_now(entry, covered));
  CHECK(covered == 1);
  CHECK(times->learn(entry, 9, kUnknownKernelNs, covered, 2 * kMs).charge_ns ==
        static_cast<std::int64_t>(kMs));
  CHECK(entry.predicted_ns.load() == 2 * kMs);
  // A year of agreeing measures makes them rarer, up to a bound in device time.
  for (int i = 0; i < 100; ++i) times->learn(entry, 9, 2 * kMs, 1, 2 * kMs);
  CHECK(entry.interval_ns.load() == kMeasureEveryNs);
  CHECK(times->measure_now(entry, covered));  // 2 ms kernels: still every one.
  // Ten launches of half a millisecond were charged 2 ms each.
  CHECK(times->learn(entry, 9, 2 * kMs, 10, kMs / 2).charge_ns == -15 * static_cast<std::int64_t>(kMs));
  CHECK(entry.interval_ns.load() == 0);
}

TEST_CASE("kernel times: launches too short to be timed are no longer than their part of the time between") {
  KernelTimes times;
  KernelTime& entry = times.resident(7);
  CHECK(KernelTimes::at_most_each(entry, 1'000'000, 1, 1'100) == 1'100);        // Nothing before it to go by.
  CHECK(KernelTimes::at_most_each(entry, 1'300'000, 10'000, 1'100) == 30);      // 300 us for 10,000 of them.
  CHECK(KernelTimes::at_most_each(entry, 9'300'000, 2, 1'100) == 1'100);        // They had far more time.
  CHECK(KernelTimes::at_most_each(entry, 9'400'000, 1'000, 50'000) == 50'000);  // Long enough to be timed.
  CHECK(KernelTimes::at_most_each(entry, 9'000'000, 1'000, 1'100) ==
        1'100);  // Ends that go back say nothing.
}

TEST_CASE("kernel times: a flood of launches nobody has measured yet does not become a flood of events") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  std::uint32_t covered = 0;
  unsigned measured = 0;
  for (int i = 0; i < 1000; ++i) measured += times->measure_now(entry, covered) ? 1U : 0U;
  CHECK(measured == kPendingMeasuresMax);
}

TEST_CASE("kernel times: an evicted kernel's late measure does not teach its successor") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  std::uint64_t other = 10;
  while (KernelTimes::place(other) != KernelTimes::place(9)) ++other;
  times->resident(other);
  times->learn(entry, 9, kUnknownKernelNs, 1, 50 * kMs);
  CHECK(times->find(9) == nullptr);
  CHECK(times->find(other)->predicted_ns.load() == kUnknownKernelNs);
}

}  // namespace
}  // namespace tranche::guard
