// SPDX-License-Identifier: Apache-2.0
#include "policy/service_scaling.hpp"

#include <algorithm>

namespace tranche::policy {

// A step at a time: what is measured follows a new replica only after a while.
std::uint32_t ServiceScaling::one_more(const ScalingBounds& bounds,
                                       const ScalingDemand& demand,
                                       Instant now) {
  if (demand.ready < wanted_ || now - added_ < bounds.patience) return wanted_;
  added_ = now;
  return std::min(wanted_ + 1, bounds.max);
}

std::uint32_t ServiceScaling::wanted(const ScalingBounds& bounds, const ScalingDemand& demand, Instant now) {
  const std::uint64_t each = std::max(bounds.concurrency, 1U);
  auto needed =
      static_cast<std::uint32_t>(std::min<std::uint64_t>((demand.in_flight + each - 1) / each, bounds.max));
  if (bounds.delay) {
    needed = std::min(needed, std::max(wanted_, 1U));
    if (demand.waited > *bounds.delay) needed = std::max(needed, one_more(bounds, demand, now));
  }
  if (demand.is_late && demand.in_flight > 0) needed = std::max(needed, one_more(bounds, demand, now));
  const bool recently = demand.last_request != Instant{} && now - demand.last_request < bounds.idle;
  if (recently) needed = std::max(needed, 1U);
  needed = std::clamp(needed, bounds.min, bounds.max);
  peak_ = std::max(peak_, needed);
  if (needed >= wanted_) {
    wanted_ = needed;
    peak_ = 0;
    since_ = now;
  } else if (now - since_ >= bounds.settle || needed == 0) {
    wanted_ = needed == 0 ? 0 : peak_;
    peak_ = 0;
    since_ = now;
  }
  wanted_ = std::clamp(wanted_, bounds.min, bounds.max);
  return wanted_;
}

}  // namespace tranche::policy
