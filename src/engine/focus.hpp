// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs in the FOCUS 1.2 form that finance tools read, and a check of any such table against its columns.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/state.hpp"

namespace tranche::engine {

// One row for each cost of a day, party and job, and for each credit note made then, as CSV with a header.
[[nodiscard]] std::string focus_csv(const State&, PartyId party, Instant from, Instant to);

// What is to be paid on each invoice and credit note whose rows are all in that table.
[[nodiscard]] std::map<std::string, Money> focus_payable(const State&,
                                                         PartyId party,
                                                         Instant from,
                                                         Instant to);

// What is wrong with a FOCUS 1.2 table, a sentence each; nothing: it conforms. At most a hundred. Rows of
// every invoice that is named in `payable` must add up to it.
[[nodiscard]] std::vector<std::string> focus_problems(std::string_view csv,
                                                      const std::map<std::string, Money>& payable = {});

struct FocusColumn {
  std::string_view name;
  bool mandatory;
  bool nullable;
  std::string_view type;     // String, Decimal, Date/Time or JSON.
  std::string_view allowed;  // Separated by bars; empty: anything.
  bool since_13;
};
[[nodiscard]] std::vector<FocusColumn> focus_columns();  // As the check knows them.

}  // namespace tranche::engine
