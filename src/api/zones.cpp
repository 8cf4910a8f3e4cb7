// SPDX-License-Identifier: Apache-2.0
#include "api/zones.hpp"

#include <algorithm>
#include <date/tz.h>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>

#include "api/zone_rule.hpp"

namespace tranche::api {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;

constexpr int kLastYear = 2099;
constexpr std::string_view kZoneFolder = "/usr/share/zoneinfo/";

Instant instant_of(sys_seconds at) {
  return Instant{std::chrono::duration_cast<Duration>(at.time_since_epoch())};
}

// The last line of the zone's file. The name was found in the database, so it is a path inside it.
std::optional<ZoneRule> rule_of(const std::string& name) {
  std::ifstream file(std::string(kZoneFolder) + name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!bytes.starts_with("TZif") || bytes.back() != '\n') return std::nullopt;
  const std::size_t begin = bytes.rfind('\n', bytes.size() - 2);
  if (begin == std::string::npos) return std::nullopt;
  return parse_zone_rule(std::string_view(bytes).substr(begin + 1, bytes.size() - begin - 2));
}

void append_rule(std::vector<wire::ZoneOffset>& offsets, const ZoneRule& rule, int until) {
  if (!rule.changes) return;
  const Instant listed = offsets.back().from;
  for (int year = 2020; year <= until; ++year) {
    const auto [first, second] = rule.changes_in(std::chrono::year(year));
    for (const auto& [at, offset] : {first, second}) {
      if (instant_of(at) <= listed || offset.count() == offsets.back().seconds) continue;
      offsets.push_back({instant_of(at), static_cast<std::int32_t>(offset.count())});
    }
  }
}

}  // namespace

std::optional<std::vector<wire::ZoneOffset>> zone_offsets(const std::string& name, int until) {
  const date::time_zone* zone = nullptr;
  try {
    zone = date::locate_zone(name);
  } catch (const std::runtime_error&) { return std::nullopt; }
  const date::sys_seconds from = date::sys_days(date::year{2020} / 1 / 1);
  const date::sys_seconds to = date::sys_days(date::year{until + 1} / 1 / 1);
  std::vector<wire::ZoneOffset> offsets;
  bool listed_to_the_end = true;
  for (date::sys_seconds at = from; at < to;) {
    const date::sys_info info = zone->get_info(at);
    const Instant since =
        offsets.empty() ? Instant{} : Instant{std::chrono::duration_cast<Duration>(at.time_since_epoch())};
    const auto offset = static_cast<std::int32_t>(info.offset.count());
    if (offsets.empty() || offsets.back().seconds != offset) offsets.push_back({since, offset});
    listed_to_the_end = info.end < date::sys_seconds(date::sys_days(date::year{2200} / 1 / 1));
    at = info.end;
  }
  if (!listed_to_the_end)
    if (const auto rule = rule_of(name)) append_rule(offsets, *rule, until);
  return offsets;
}

void resolve_zone(const std::string& name, wire::Zones& zones) {
  if (zones.contains(name)) return;
  if (auto offsets = zone_offsets(name)) zones.emplace(name, std::move(*offsets));
}

wire::Rules resolve_zones(std::vector<wire::Rule> rules) {
  wire::Rules resolved{.rules = std::move(rules), .zones = {}};
  for (const wire::Rule& rule : resolved.rules) {
    for (const auto* hours : {&rule.when.during, &rule.when.outside}) {
      if (*hours) resolve_zone((*hours)->zone, resolved.zones);
    }
  }
  return resolved;
}

std::shared_ptr<const Zone> Zone::find(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Zone>> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(name); found != known.end()) return found->second;
  auto offsets = zone_offsets(name, kLastYear);
  if (!offsets) return nullptr;
  auto zone = std::make_shared<Zone>();
  zone->name_ = name;
  zone->offsets_ = std::move(*offsets);
  return known.emplace(name, std::move(zone)).first->second;
}

seconds Zone::offset(Instant at) const {
  const auto after = std::upper_bound(
      offsets_.begin() + 1, offsets_.end(), at, [](Instant when, const wire::ZoneOffset& one) {
        return when < one.from;
      });
  return seconds((after - 1)->seconds);
}

LocalTime Zone::local(Instant at) const {
  const auto whole = std::chrono::floor<seconds>(at);
  return LocalTime{whole.time_since_epoch() + offset(at)};
}

Instant Zone::instant(LocalTime local) const {
  // The offset that held before the change nearest to it: right before and in gaps, first where it is twice.
  for (std::size_t i = 0; i < offsets_.size(); ++i) {
    const Instant at{
        std::chrono::duration_cast<Duration>(local.time_since_epoch() - seconds(offsets_[i].seconds))};
    if (i + 1 == offsets_.size() || at < offsets_[i + 1].from) return at;
    // In the gap that the next change makes, the old offset still counts.
    const Instant with_next{
        std::chrono::duration_cast<Duration>(local.time_since_epoch() - seconds(offsets_[i + 1].seconds))};
    if (with_next < offsets_[i + 1].from) return at;
  }
  return {};
}

Instant Zone::first_instant(LocalTime local_time) const {
  const Instant at = instant(local_time);
  if (local(at) == local_time) return at;
  for (const wire::ZoneOffset& change : offsets_)
    if (change.from <= at && local(change.from) >= local_time && change.from > at - std::chrono::hours(48))
      return change.from;
  return at;
}

}  // namespace tranche::api
