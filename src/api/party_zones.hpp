// SPDX-License-Identifier: Apache-2.0
#pragma once
// Zones that parties name, told to the engine as offsets: for budgets and billing periods by their clocks.
#include <string>

#include "engine/state.hpp"
#include "server/loop.hpp"

namespace tranche::api {

// Where the engine does not know the zone yet, or knows it as an older database of zones had it.
void resolve_party_zone(server::Loop& loop, const engine::State& state, const std::string& zone);
void resolve_party_zones(server::Loop& loop);  // Of all parties.

}  // namespace tranche::api
