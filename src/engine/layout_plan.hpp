// SPDX-License-Identifier: Apache-2.0
#pragma once
// How devices should be cut for the hardware partitions that are expected to be wanted soon: which device,
// which profile, where. Of one pass.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/state.hpp"

namespace tranche::engine {

struct PlannedPartition {
  DeviceId device{};
  std::string profile{};
  std::uint8_t start = 0;
  std::uint16_t slots = 0;
  std::uint8_t priority = 0;  // Of the work that is expected.
};

// For the hours until then: what is expected beyond what runs, on devices that are free or cut already, large
// profiles first.
[[nodiscard]] std::vector<PlannedPartition> plan_layouts(const State&, Instant now, Instant until);

// How far ahead devices are prepared.
constexpr Duration kLayoutAhead = std::chrono::hours(4);

}  // namespace tranche::engine
