// SPDX-License-Identifier: Apache-2.0
#include "api/party_zones.hpp"

#include <set>

#include "api/zones.hpp"

namespace tranche::api {

void resolve_party_zone(server::Loop& loop, const engine::State& state, const std::string& zone) {
  const auto found = Zone::find(zone);
  if (!found) return;  // Left the database since: what was known of it still holds.
  const auto known = state.zones.find(zone);
  if (known != state.zones.end() && known->second == found->offsets()) return;
  loop.submit(
      {.origin = "calendar"}, engine::ResolveZone{zone, found->offsets()}, [](const server::Outcome&) {});
}

void resolve_party_zones(server::Loop& loop) {
  loop.read([&loop](const engine::State& state) {
    std::set<std::string> zones;
    for (const auto& [id, party] : state.parties)
      if (!party.time_zone.empty() && zones.insert(party.time_zone).second)
        resolve_party_zone(loop, state, party.time_zone);
  });
}

}  // namespace tranche::api
