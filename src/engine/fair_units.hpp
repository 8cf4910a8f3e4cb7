// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fair share stated in units: where the operator says what a frame or a token counts as, the work that told
// them counts by that, in place of the time that it took.
#include "engine/state.hpp"
#include "engine/unit_book.hpp"

namespace tranche::engine {

// Time of a device that one of these counts as; zero: nothing was said, its time counts.
[[nodiscard]] Duration fair_weight(const State&, std::string_view unit);
void weigh_units(State&, const CountedUnits&);

}  // namespace tranche::engine
