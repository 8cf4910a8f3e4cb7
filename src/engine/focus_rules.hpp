// SPDX-License-Identifier: Apache-2.0
#pragma once
// What each column of FOCUS 1.2, and of those that 1.3 adds, may hold.
#include <cstdint>
#include <span>
#include <string_view>

namespace tranche::engine {

enum class FocusType : std::uint8_t { kString, kDecimal, kDateTime, kJson, kUnit, kCurrency };

struct FocusRule {
  std::string_view name;
  bool mandatory;
  bool nullable;
  FocusType type;
  std::string_view allowed;  // Separated by bars; empty: anything.
};

[[nodiscard]] std::span<const FocusRule> focus_rules();              // In the order of the specification.
[[nodiscard]] const FocusRule* focus_rule(std::string_view column);  // Null: there is no such column.
// Whether a value that is there is one that the column may have.
[[nodiscard]] bool fits(const FocusRule&, std::string_view value);
// Whether a subcategory of services is one of that category; each belongs to one.
[[nodiscard]] bool is_subcategory(std::string_view category, std::string_view subcategory);

}  // namespace tranche::engine
