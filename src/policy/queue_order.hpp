// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who is next among those who wait: priority 0-100 with named classes, fair share within a priority, the
// order of submission within a group. Waiting raises everybody to the top in a time that can be stated
// beforehand.
#include <cstdint>
#include <optional>
#include <string_view>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

using Priority = std::int32_t;  // 0..100
constexpr Priority kPriorityMax = 100;

// scavenge 0, low 25, normal 50, high 75, critical 100; or a number as text.
std::optional<Priority> parse_priority(std::string_view name);
std::string_view priority_class(Priority priority);  // The highest named class not above it.

struct OrderRules {
  Seconds aged_after = 2 * 86400;  // Waited this long: ahead of every priority, in the order of submission.
};

struct OrderView {
  JobIndex job = 0;
  Priority priority = 50;
  std::int32_t group_rank = 0;  // From FairShareTree::ranks: smaller had less than its share.
  Seconds waited = 0;           // All time spent waiting, earlier waits too.
  Seconds deadline = -1;        // Start by this instant to be in time; -1: none.
};

struct OrderKey {
  std::int32_t tier = 0;  // 0: aged. Then 1 + (100 - priority).
  Seconds deadline = 0;
  std::int32_t group_rank = 0;
  JobIndex job = 0;
  auto operator<=>(const OrderKey&) const = default;
};

// Smaller keys go first. A job that is aged keeps its place whatever is submitted later, so its wait is at
// most aged_after plus what those submitted before it still need.
OrderKey order_key(const OrderView& view, const OrderRules& rules);

}  // namespace tranche::policy
