// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much device time may a lane use now under a ceiling?
//
// A token bucket on wall time. What a job leaves unused is gone beyond a small burst. What its host kept it
// from using (it stood at the gate and was woken late) may be made up for, but never so that any second holds
// more than the share and the burst, and not after a second in which it wanted nothing.
#include <cstdint>

#include "guard/region.hpp"

namespace tranche::guard {

inline constexpr std::uint64_t kCeilingBurstNs = 40'000'000;  // Ceiling time that can be saved up.
inline constexpr std::uint64_t kKeptOffMaxNs = 60'000'000;    // And beyond it, while its host was late.
inline constexpr std::uint64_t kOrphanDebtNs = 250'000'000;   // Owed at most from before a ceiling held.

class Ceiling {
 public:
  Ceiling(const LaneControl& rules, LaneLedger& ledger) : rules_(&rules), ledger_(&ledger) {}

  // Device time left now; negative is debt.
  [[nodiscard]] std::int64_t left(std::uint64_t now);
  // The same where the share became a ceiling only because the broker fell silent.
  [[nodiscard]] std::int64_t orphan_left(std::uint64_t now);
  // Whoever waited for nothing but time slept longer than it had asked for.
  void woken_late(std::uint64_t by_ns);

 private:
  [[nodiscard]] std::uint64_t allowance(std::uint64_t now) const;
  [[nodiscard]] std::uint64_t earned(std::uint64_t wall_ns) const;
  struct Past;
  [[nodiscard]] Past past(std::uint64_t then, std::uint64_t now) const;
  void remember(std::int64_t saved, std::uint64_t now);

  const LaneControl* rules_;
  LaneLedger* ledger_;
};

}  // namespace tranche::guard
