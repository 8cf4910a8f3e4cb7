// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reports over what was charged: costs by a dimension.
#include "engine/state.hpp"
#include "wire/api_money.hpp"

namespace tranche::engine {

// Costs at and below a party, of the days from `from` until before `to`; a credit note counts on the day it
// was made.
[[nodiscard]] wire::CostReport cost_report(
    const State&, PartyId party, wire::CostBy by, Instant from, Instant to, const std::string& tag = {});

}  // namespace tranche::engine
