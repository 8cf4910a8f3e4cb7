// SPDX-License-Identifier: Apache-2.0
#include "policy/demand_forecast.hpp"

#include <algorithm>

namespace tranche::policy {
namespace {

constexpr Seconds kHoursOfDay = 24;
constexpr Seconds kHoursOfWeek = 7 * kHoursOfDay;
constexpr Seconds kWeeksKept = 5;

Seconds hour_of(Seconds at) {
  return (at >= 0 ? at : at - DemandForecast::kHour + 1) / DemandForecast::kHour;
}

}  // namespace

void DemandForecast::observe(Seconds from, Seconds until, std::int64_t milli) {
  if (until <= from) return;
  const Seconds begins = hour_of(from);
  const Seconds ends = hour_of(until - 1);
  first_ = hours_.empty() ? begins : std::min(first_, begins);
  last_ = hours_.empty() ? ends : std::max(last_, ends);
  for (Seconds hour = begins; hour <= ends; ++hour) {
    const Seconds inside = std::min(until, (hour + 1) * kHour) - std::max(from, hour * kHour);
    hours_[hour] += milli * inside;
  }
  const Seconds oldest = last_ - kWeeksKept * kHoursOfWeek;
  hours_.erase(hours_.begin(), hours_.lower_bound(oldest));
  first_ = std::max(first_, oldest);
}

std::int64_t DemandForecast::level(Seconds hour) const {
  const auto found = hours_.find(hour);
  return found == hours_.end() ? 0 : found->second / kHour;
}

std::optional<std::int64_t> DemandForecast::expect(Seconds hour_start) const {
  const Seconds hour = hour_of(hour_start);
  for (const Seconds period : {kHoursOfWeek, kHoursOfDay}) {
    std::int64_t sum = 0;
    std::int64_t weights = 0;
    std::int64_t weight = 16;
    for (Seconds like = hour - period; seen(like);
         like -= period, weight = std::max<std::int64_t>(weight / 2, 1)) {
      sum += weight * level(like);
      weights += weight;
    }
    if (weights > 0) return sum / weights;
  }
  return std::nullopt;
}

}  // namespace tranche::policy
