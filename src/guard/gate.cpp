// SPDX-License-Identifier: Apache-2.0
#include "guard/gate.hpp"

#include <algorithm>

#include "guard/host_clock.hpp"

namespace tranche::guard {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kSleepMaxNs = 20'000'000;  // Look again now and then: brokers die without a word.
// Whoever ran out sleeps at least this long, and then has more to spend: waking up costs some 10 us.
constexpr std::uint64_t kSleepMinNs = 2'000'000;

std::int64_t difference(std::uint64_t left, std::uint64_t right) {
  return static_cast<std::int64_t>(left - right);
}

}  // namespace

Verdict LaneGate::try_pass(std::uint64_t amount_ns, std::uint64_t now) {
  const std::uint64_t end_at = control_->end_at.load(kRelaxed);
  if (control_->stop.load(kRelaxed) == kMustEnd || (end_at != 0 && now >= end_at)) return {Passage::kEnded};
  if ((settings_->flags.load(kRelaxed) & kPaused) != 0) return {Passage::kWait, kSleepMaxNs};

  const auto gate = static_cast<Gate>(rules_->gate.load(std::memory_order_acquire));
  const auto mode = static_cast<ShareMode>(settings_->mode.load(kRelaxed));
  const std::uint64_t beat = control_->heartbeat_at.load(kRelaxed);
  const bool orphaned = now > beat && now - beat > kBrokerSilentNs;
  const bool silent = gate == Gate::kOwnCap || orphaned;
  const bool ceiling = mode == ShareMode::kCap || (silent && mode != ShareMode::kUnlimited);
  if (ceiling) {
    const std::int64_t left = mode == ShareMode::kCap ? ceiling_.left(now) : ceiling_.orphan_left(now);
    if (left <= 0) {
      const std::uint64_t share = std::max<std::uint64_t>(1, rules_->share.load(kRelaxed));
      const auto debt = static_cast<Word128>(-left + 1);
      const auto wait = static_cast<std::uint64_t>(debt * kShareWhole / share);
      Verdict later{Passage::kWait, std::clamp(wait, kSleepMinNs, kSleepMaxNs)};
      later.only_time = true;
      later.orphaned = orphaned;
      return later;
    }
  }
  if (gate == Gate::kArbitrated && !silent) {
    // What was predicted too long gives nothing back here: the broker counts it, and others may be before us.
    const std::uint64_t submitted = ledger_->submitted_ns.load(std::memory_order_acquire);
    if (difference(rules_->granted_ns.load(std::memory_order_acquire), submitted) <= 0)
      return {Passage::kWait, kSleepMaxNs, true};
  }
  Verdict passed{Passage::kPassed};
  passed.orphaned = orphaned;
  passed.mark = ledger_->submitted_ns.fetch_add(amount_ns, kRelaxed) + amount_ns;
  passed.clear_at = rules_->clear_at.load(kRelaxed);
  ledger_->submitted_at.store(now, kRelaxed);
  return passed;
}

bool LaneGate::limited(std::uint64_t now) const {
  const auto mode = static_cast<ShareMode>(settings_->mode.load(kRelaxed));
  if (mode == ShareMode::kCap) return true;
  const std::uint64_t beat = control_->heartbeat_at.load(kRelaxed);
  const bool silent = now > beat && now - beat > kBrokerSilentNs;
  const bool alone = static_cast<Gate>(rules_->gate.load(kRelaxed)) == Gate::kAlone;
  return mode == ShareMode::kUnlimited ? !alone && !silent : !alone || silent;
}

void LaneGate::announce_wait(std::uint64_t amount_ns) {
  ledger_->wanted_ns.store(amount_ns, kRelaxed);
  ledger_->wait_seq.fetch_add(1, std::memory_order_release);
}

void LaneGate::sleep(std::uint32_t seen, std::uint64_t for_ns) const {
  futex_wait(rules_->wake, seen, for_ns);
}

void LaneGate::wait_out(std::uint32_t seen, const Verdict& verdict) {
  const std::uint64_t due = monotonic_ns() + verdict.sleep_ns;
  sleep(seen, verdict.sleep_ns);
  const std::uint64_t now = monotonic_ns();
  if (verdict.only_time && now > due) woken_late(now - due);
}

void LaneGate::correct(std::int64_t charge_ns, std::uint64_t confirmed_ns) {
  ledger_->corrected_ns.fetch_add(static_cast<std::uint64_t>(charge_ns), kRelaxed);
  ledger_->measured_ns.fetch_add(confirmed_ns, kRelaxed);
}

void LaneGate::report_end(std::uint64_t mark, std::uint64_t end_at) {
  AtomicPair& place = ledger_->ends[ledger_->ends_told.fetch_add(1, kRelaxed) % kEndsKept];
  place.replace(place.load(), {end_at, mark});  // Lost to a later one: fine.
}

// Of the stretches known to have begun, the first that reaches up to `mark`: it holds the work, unless one in
// between was not told, and that shows in its beginning after the end.
std::uint64_t LaneGate::began_at(std::uint64_t mark, std::uint64_t ended_at) const {
  Pair first{0, UINT64_MAX};
  for (const AtomicPair& each : rules_->began) {
    const Pair stretch = each.load();
    if (stretch.low != 0 && stretch.high >= mark && stretch.high < first.high) first = stretch;
  }
  return first.low < ended_at ? first.low : 0;
}

void LaneGate::count(std::uint64_t operations, std::uint64_t bytes) {
  ledger_->operations.fetch_add(operations, kRelaxed);
  if (bytes != 0) ledger_->bytes.fetch_add(bytes, kRelaxed);
}

}  // namespace tranche::guard
