// SPDX-License-Identifier: Apache-2.0
#pragma once
// Costs in the FOCUS 1.2 form that finance tools read, and a check of any such table against its columns.
#include <string>
#include <string_view>
#include <vector>

#include "engine/state.hpp"

namespace tranche::engine {

// One row for each cost of a day, party and job, and for each credit note made then, as CSV with a header.
[[nodiscard]] std::string focus_csv(const State&, PartyId party, Instant from, Instant to);

// What is wrong with a FOCUS 1.2 table, a sentence each; nothing: it conforms. At most a hundred.
[[nodiscard]] std::vector<std::string> focus_problems(std::string_view csv);

}  // namespace tranche::engine
