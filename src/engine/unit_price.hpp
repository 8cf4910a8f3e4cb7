// SPDX-License-Identifier: Apache-2.0
#pragma once
// What units of work (frames, tokens) cost beside the time of devices: before they are done, too.
#include <map>
#include <string>

#include "engine/metering.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// What a rule takes for a million of a unit; a price of tokens holds for those in and those out.
[[nodiscard]] Money per_million(const PriceRule&, const std::string& unit);
// The dearest that holds at some time of the span, for each unit that any rule in it names.
[[nodiscard]] std::map<std::string, Money> unit_prices(const State&,
                                                       const MeterPlan&,
                                                       Instant from,
                                                       Duration ahead);
[[nodiscard]] Money price_of_units(Money per_million, std::int64_t count);  // Rounded up.
// What the units that a chunk has left cost at most; other jobs do not say how many they will do.
[[nodiscard]] Money most_for_units(const State&, const MeterPlan&, Instant from, Duration ahead);

}  // namespace tranche::engine
