// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much will be asked for in the hours to come: the same hour of earlier weeks, newer weeks counting more,
// and today's level against what was expected of it. Used to lay out partitions before the demand arrives.
#include <array>
#include <cstdint>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

class DemandForecast {
 public:
  static constexpr Seconds kHour = 3600;
  static constexpr std::size_t kHoursOfWeek = 168;

  // Demand (device-milliseconds, requests: any one unit) seen during the hour that starts at `hour_start`.
  void observe(Seconds hour_start, std::int64_t demand);
  // Expected demand of the hour that starts at `hour_start`; -1 when nothing like it was ever seen.
  [[nodiscard]] std::int64_t expect(Seconds hour_start) const;

 private:
  struct Slot {
    std::int64_t level = 0;  // Thousandths, so that slow changes are not rounded away.
    bool seen = false;
  };
  static std::size_t slot_of(Seconds hour_start);
  std::array<Slot, kHoursOfWeek> slots_{};
  std::int64_t drift_permille_ = 1000;  // Lately seen, over what was expected then.
};

}  // namespace tranche::policy
