// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time zones, resolved at the edge: the engine is given offsets, never a name to look up.
#include <optional>
#include <string>
#include <vector>

#include "wire/rules.hpp"

namespace tranche::api {

// Every change of a zone's offset from 2020 to 2045; nullopt when there is no such zone.
[[nodiscard]] std::optional<std::vector<wire::ZoneOffset>> zone_offsets(const std::string& name);

// Fills in the offsets of every zone that the rules name. Zones that do not exist are left out.
[[nodiscard]] wire::Rules resolve_zones(std::vector<wire::Rule> rules);

}  // namespace tranche::api
