// SPDX-License-Identifier: Apache-2.0
#pragma once
// What devices earned, what they cost, and what is left: by device, node, model or tenant.
#include "engine/state.hpp"
#include "wire/api_margin.hpp"

namespace tranche::engine {

// Of the days from `from` until before `to`, as far as leases and days of devices are kept. Simulated
// devices, and what ran on them, are left out. Rows add up to the totals to the micro-unit.
[[nodiscard]] wire::MarginReport margin_report(const State&, wire::MarginBy, Instant from, Instant to);

}  // namespace tranche::engine
