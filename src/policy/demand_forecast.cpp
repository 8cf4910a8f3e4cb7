// SPDX-License-Identifier: Apache-2.0
#include "policy/demand_forecast.hpp"

#include <algorithm>

namespace tranche::policy {
namespace {

constexpr std::int64_t kDriftMin = 250,
                       kDriftMax = 4000;  // Permille: one odd hour does not run away with it.

}  // namespace

std::size_t DemandForecast::slot_of(Seconds hour_start) {
  Seconds hour = hour_start / kHour % static_cast<Seconds>(kHoursOfWeek);
  if (hour < 0) hour += static_cast<Seconds>(kHoursOfWeek);
  return static_cast<std::size_t>(hour);
}

void DemandForecast::observe(Seconds hour_start, std::int64_t demand) {
  Slot& slot = slots_[slot_of(hour_start)];
  if (slot.seen && slot.level > 0) {
    const std::int64_t ratio = std::clamp(demand * 1'000'000 / slot.level, kDriftMin, kDriftMax);
    drift_permille_ = (3 * drift_permille_ + ratio) / 4;
  }
  slot.level = slot.seen ? (slot.level + demand * 1000) / 2 : demand * 1000;
  slot.seen = true;
}

std::int64_t DemandForecast::expect(Seconds hour_start) const {
  const Slot& slot = slots_[slot_of(hour_start)];
  if (slot.seen) return slot.level / 1000 * drift_permille_ / 1000;
  // The same hour of another day is a better guess than nothing.
  std::int64_t sum = 0, count = 0;
  for (std::size_t day = 0; day < 7; ++day) {
    const Slot& other = slots_[(slot_of(hour_start) + day * 24) % kHoursOfWeek];
    if (!other.seen) continue;
    sum += other.level;
    ++count;
  }
  return count == 0 ? -1 : sum / count / 1000 * drift_permille_ / 1000;
}

}  // namespace tranche::policy
