// SPDX-License-Identifier: Apache-2.0
#include "guard/gate.hpp"

#include <doctest/doctest.h>
#include <memory>

#include "guard/kernel_times.hpp"
#include "guard/open_measures.hpp"

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

bool measures_now(KernelTime& entry) {
  const bool due = KernelTimes::measure_due(entry);
  due ? static_cast<void>(KernelTimes::begin_measure(entry)) : KernelTimes::count_launch(entry);
  return due;
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

TEST_CASE("gate: whoever ran out under a cap comes back rarely, and then has more to spend") {
  Lab lab = lab_with(ShareMode::kCap, 5'000, Gate::kAlone);
  std::uint64_t now = 1'000 * kMs;
  unsigned waits = 0;
  LaneGate gate = lab.gate();
  for (const std::uint64_t end = now + 1'000 * kMs; now < end;) {
    const Verdict verdict = gate.try_pass(kMs / 20, now);
    if (verdict.passage == Passage::kPassed) continue;
    ++waits;
    now += verdict.sleep_ns;
  }
  CHECK(waits <= 500);
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
  CHECK(Ceiling(lab.rules(), lab.used()).left(60'000 * kMs) == static_cast<std::int64_t>(kCeilingBurstNs));
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
  // It was far shorter than predicted: others may have waited longer, so that is for the broker to give.
  gate.correct(-20 * static_cast<std::int64_t>(kMs), 0);
  CHECK(gate.try_pass(1, 1).passage == Passage::kWait);
  lab.rules().granted_ns.store(23 * kMs);
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

Reading exactly(std::uint64_t ns) {
  return {ns, ns, Trust::kExact};
}

TEST_CASE("kernel times: what a measure says is charged for all launches it stands for") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  REQUIRE(KernelTimes::measure_due(entry));
  CHECK(KernelTimes::begin_measure(entry) == 1);
  CHECK(times->learn(entry, 9, kUnknownKernelNs, 1, exactly(2 * kMs)).charge_ns ==
        static_cast<std::int64_t>(kMs));
  CHECK(entry.predicted_ns.load() == 2 * kMs);
  // A year of agreeing measures makes them rarer, up to a bound in device time.
  for (int i = 0; i < 100; ++i) times->learn(entry, 9, 2 * kMs, 1, exactly(2 * kMs));
  CHECK(entry.interval_ns.load() == kMeasureEveryNs);
  CHECK(measures_now(entry));  // 2 ms kernels: still every one.
  // Ten launches of half a millisecond were charged 2 ms each.
  CHECK(times->learn(entry, 9, 2 * kMs, 10, exactly(kMs / 2)).charge_ns ==
        -15 * static_cast<std::int64_t>(kMs));
  CHECK(entry.interval_ns.load() == 0);
}

TEST_CASE("kernel times: work is not longer than since the work of others before it should have ended") {
  const std::uint64_t t = 1'000 * kMs;
  // Submitted 9 ms before its end; what others had in front should have ended 2 ms before.
  Reading reading = read_ends({t, t - kMs, t + 7 * kMs, t + 9 * kMs, 8 * kMs, true});
  CHECK(reading.device_ns == 2 * kMs);
  CHECK(reading.most_ns == 9 * kMs);
  CHECK(reading.trust == Trust::kModelled);
  CHECK(reading.others_about);
  reading = read_ends({t, t - kMs, 0, t + 9 * kMs, 8 * kMs, true});  // No others.
  CHECK(reading.device_ns == 9 * kMs);
  CHECK(reading.trust == Trust::kExact);
  // The model says that others still run: only that it was no longer than this is sure.
  reading = read_ends({t, t - kMs, t + 20 * kMs, t + 3 * kMs, 8 * kMs, true});
  CHECK(reading.device_ns == 3 * kMs);
  CHECK(reading.trust == Trust::kExact);
  CHECK_FALSE(read_ends({t, t - kMs, t + 20 * kMs, t + 9 * kMs, 8 * kMs, true}).usable);
}

TEST_CASE("gate: a launch finds when the work of others before it had ended, or that it is not known") {
  Lab lab = lab_with(ShareMode::kFair, 3000, Gate::kArbitrated);
  auto tell = [&](std::size_t place, std::uint64_t began, std::uint64_t up_to) {
    lab.rules().began[place].replace(lab.rules().began[place].load(), {began, up_to});
  };
  CHECK(lab.gate().began_at(10 * kMs, 50 * kMs) == 0);
  tell(0, 40 * kMs, 10 * kMs);
  tell(1, 60 * kMs, 14 * kMs);
  CHECK(lab.gate().began_at(10 * kMs, 50 * kMs) == 40 * kMs);
  CHECK(lab.gate().began_at(9 * kMs, 50 * kMs) == 40 * kMs);  // In the middle of the stretch.
  CHECK(lab.gate().began_at(12 * kMs, 58 * kMs) == 0);  // That stretch was not told; the next began later.
  CHECK(lab.gate().began_at(13 * kMs, 70 * kMs) == 60 * kMs);
}

TEST_CASE("open measures: concluded exactly once the beginning is told, by the model when nobody tells") {
  Lab lab = lab_with(ShareMode::kFair, 3000, Gate::kArbitrated);
  auto times = std::make_unique<KernelTimes>();
  OpenMeasures open;
  OpenMeasure measure{&times->resident(9), 9, 10 * kMs, 2 * kMs, 1, 0, {}};
  measure.ends = {30 * kMs, 20 * kMs, 41 * kMs, 45 * kMs, 2 * kMs, true};
  CHECK(open.keep(measure));
  OpenMeasure out;
  Reading reading;
  CHECK_FALSE(open.take(*lab.control, *lab.ledger, 46 * kMs, out, reading));
  lab.rules().began[3].replace({}, {43 * kMs, 10 * kMs});
  CHECK(open.take(*lab.control, *lab.ledger, 46 * kMs, out, reading));
  CHECK(reading.device_ns == 2 * kMs);
  CHECK(reading.trust == Trust::kExact);
  measure.mark = 20 * kMs;
  CHECK(open.keep(measure));
  CHECK(open.take(*lab.control, *lab.ledger, 500 * kMs, out, reading));
  CHECK(reading.device_ns == 4 * kMs);
  CHECK(reading.trust == Trust::kModelled);
  CHECK_FALSE(open.take(*lab.control, *lab.ledger, 500 * kMs, out, reading));
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

TEST_CASE("kernel times: launches in a row tell how short each is, until the next measure") {
  KernelTimes times;
  KernelTime& entry = times.resident(8);
  times.learn(entry, 8, kUnknownKernelNs, 1, exactly(1'200));  // With the time it takes to ask for an event.
  CHECK(KernelTimes::is_tiny(entry));
  KernelTimes::learn_batch(entry, 100 * 240, 100);
  CHECK(entry.predicted_ns.load() == 240);
  CHECK(KernelTimes::at_most_each(entry, 1'000'000, 1, 1'200) == 240);
  CHECK(KernelTimes::at_most_each(entry, 9'000'000, 2, 1'200) == 1'200);  // What was in a row is past.
  KernelTimes::learn_batch(entry, 100 * 50'000, 100);                     // A neighbour's work was between.
  CHECK(entry.predicted_ns.load() == 240);
}

TEST_CASE("kernel times: what was launched before anything was known is put right when it is") {
  KernelTimes times;
  KernelTime& entry = times.resident(8);
  CHECK(KernelTimes::begin_measure(entry) == 1);
  for (int i = 0; i < 99; ++i) KernelTimes::count_launch(entry);  // Charged kUnknownKernelNs each.
  std::int64_t charged = 100 * static_cast<std::int64_t>(kUnknownKernelNs);
  charged += times.learn(entry, 8, kUnknownKernelNs, 1, exactly(kMs / 5)).charge_ns;
  CHECK(charged == 100 * static_cast<std::int64_t>(kMs / 5));
  CHECK(KernelTimes::begin_measure(entry) == 100);
  charged += static_cast<std::int64_t>(kMs / 5);
  charged += times.learn(entry, 8, kMs / 5, 100, exactly(kMs / 5)).charge_ns;
  CHECK(charged == 101 * static_cast<std::int64_t>(kMs / 5));
}

TEST_CASE("kernel times: one row that the host tore does not make a short kernel a long one") {
  KernelTimes times;
  KernelTime& entry = times.resident(8);
  for (int i = 0; i < 4; ++i) times.learn(entry, 8, 240, 1, exactly(240));
  times.learn(entry, 8, 240, 1, exactly(1'000));
  CHECK(entry.predicted_ns.load() < 480);
  times.learn(entry, 8, 240, 1, exactly(1'000));  // It repeats: it is so.
  CHECK(entry.predicted_ns.load() == 1'000);
}

TEST_CASE("kernel times: a flood of launches nobody has measured yet does not become a flood of events") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  unsigned measured = 0;
  for (int i = 0; i < 1000; ++i) measured += measures_now(entry) ? 1U : 0U;
  CHECK(measured == kPendingMeasuresMax);
}

TEST_CASE("kernel times: an evicted kernel's late measure does not teach its successor") {
  auto times = std::make_unique<KernelTimes>();
  KernelTime& entry = times->resident(9);
  std::uint64_t other = 10;
  while (KernelTimes::place(other) != KernelTimes::place(9)) ++other;
  times->resident(other);
  times->learn(entry, 9, kUnknownKernelNs, 1, exactly(50 * kMs));
  CHECK(times->find(9) == nullptr);
  CHECK(times->find(other)->predicted_ns.load() == kUnknownKernelNs);
}

}  // namespace
}  // namespace tranche::guard
