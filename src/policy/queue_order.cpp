// SPDX-License-Identifier: Apache-2.0
#include "policy/queue_order.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace tranche::policy {
namespace {

constexpr std::array kClasses{std::pair{std::string_view("scavenge"), 0},
                              std::pair{std::string_view("low"), 25},
                              std::pair{std::string_view("normal"), 50},
                              std::pair{std::string_view("high"), 75},
                              std::pair{std::string_view("critical"), 100}};

}  // namespace

std::optional<Priority> parse_priority(std::string_view name) {
  for (const auto& [text, priority] : kClasses) {
    if (name == text) return priority;
  }
  Priority value = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (problem != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  if (value < 0 || value > kPriorityMax) return std::nullopt;
  return value;
}

std::string_view priority_class(Priority priority) {
  std::string_view found = kClasses.front().first;
  for (const auto& [text, lowest] : kClasses) {
    if (priority >= lowest) found = text;
  }
  return found;
}

OrderKey order_key(const OrderView& view, const OrderRules& rules) {
  if (view.waited >= rules.aged_after) return {0, 0, 0, view.job};
  const Priority priority = std::clamp(view.priority, 0, kPriorityMax);
  const Seconds deadline = view.deadline < 0 ? std::numeric_limits<Seconds>::max() : view.deadline;
  return {1 + kPriorityMax - priority, deadline, view.group_rank, view.job};
}

}  // namespace tranche::policy
