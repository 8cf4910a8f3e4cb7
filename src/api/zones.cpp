// SPDX-License-Identifier: Apache-2.0
#include "api/zones.hpp"

#include <date/tz.h>
#include <stdexcept>

namespace tranche::api {

std::optional<std::vector<wire::ZoneOffset>> zone_offsets(const std::string& name) {
  const date::time_zone* zone = nullptr;
  try {
    zone = date::locate_zone(name);
  } catch (const std::runtime_error&) { return std::nullopt; }
  const date::sys_seconds from = date::sys_days(date::year{2020} / 1 / 1);
  const date::sys_seconds to = date::sys_days(date::year{2045} / 1 / 1);
  std::vector<wire::ZoneOffset> offsets;
  for (date::sys_seconds at = from; at < to;) {
    const date::sys_info info = zone->get_info(at);
    const Instant since =
        offsets.empty() ? Instant{} : Instant{std::chrono::duration_cast<Duration>(at.time_since_epoch())};
    offsets.push_back({since, static_cast<std::int32_t>(info.offset.count())});
    at = info.end;
  }
  return offsets;
}

wire::Rules resolve_zones(std::vector<wire::Rule> rules) {
  wire::Rules resolved{.rules = std::move(rules), .zones = {}};
  for (const wire::Rule& rule : resolved.rules) {
    for (const auto* hours : {&rule.when.during, &rule.when.outside}) {
      if (!*hours || resolved.zones.contains((*hours)->zone)) continue;
      if (auto offsets = zone_offsets((*hours)->zone))
        resolved.zones.emplace((*hours)->zone, std::move(*offsets));
    }
  }
  return resolved;
}

}  // namespace tranche::api
