// SPDX-License-Identifier: Apache-2.0
#pragma once
// Of what a party is guaranteed, as far as it asks for it: how much does it have? Counted for parties to whom
// a service level promises it, and judged day by day.
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Whether somebody has, or misses, another part of its guarantee than was noted, or a day is over.
[[nodiscard]] bool guarantees_due(const State&, Instant now);
[[nodiscard]] Events note_guarantees(const State&, const Envelope&);

void close_day(ServiceLevel&, Instant day);
// As far as the day has come.
[[nodiscard]] Delivery guarantee_of_today(const State&, const ServiceLevel&);

// Guarantees of which something is missing now, or would be missing if they were asked for.
void add_short_guarantees(const State&, const ServiceLevel&, std::vector<LevelRisk>&);

}  // namespace tranche::engine
