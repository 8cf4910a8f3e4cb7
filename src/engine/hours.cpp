// SPDX-License-Identifier: Apache-2.0
#include "engine/hours.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace tranche::engine {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;

std::optional<std::int64_t> parse_clock(std::string_view text) {  // "22:30" in seconds of the day
  int hours = 0;
  int minutes = 0;
  if (text.size() != 5 || text[2] != ':') return std::nullopt;
  const auto whole = [](std::string_view digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  if (!whole(text.substr(0, 2), hours) || !whole(text.substr(3), minutes)) return std::nullopt;
  if (hours < 0 || hours > 24 || minutes < 0 || minutes > 59 || (hours == 24 && minutes != 0))
    return std::nullopt;
  return hours * 3600LL + minutes * 60LL;
}

std::int64_t floor_day(std::int64_t seconds) {
  return seconds / kDaySeconds - (seconds % kDaySeconds < 0 ? 1 : 0);
}

std::int64_t utc_seconds(Instant at) {
  return std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
}

}  // namespace

std::int64_t offset_seconds(const std::vector<ZoneOffset>& offsets, Instant at) {
  std::int64_t seconds = 0;
  for (const ZoneOffset& offset : offsets) {
    if (offset.from > at) break;
    seconds = offset.seconds;
  }
  return seconds;
}

bool within(const Hours& hours, const Zones& zones, Instant at) {
  const auto zone = zones.find(hours.zone);
  if (zone == zones.end()) return false;
  const std::int64_t local = utc_seconds(at) + offset_seconds(zone->second, at);
  std::int64_t day = floor_day(local);
  const std::int64_t clock = local - day * kDaySeconds;
  const std::int64_t from = parse_clock(hours.from).value_or(0);
  const std::int64_t to = parse_clock(hours.to).value_or(0);
  if (from < to) {
    if (clock < from || clock >= to) return false;
  } else {
    if (clock >= to && clock < from) return false;
    if (clock < to) --day;  // After midnight: the span began the day before.
  }
  if (hours.days.empty()) return true;
  const auto weekday = static_cast<Weekday>(((day % 7) + 7 + 3) % 7);  // 1970-01-01 was a Thursday.
  return std::find(hours.days.begin(), hours.days.end(), weekday) != hours.days.end();
}

// The clocks show another side of the span at its ends; and they may be changed before they come there.
Instant next_change(const Hours& hours, const Zones& zones, Instant at) {
  const auto zone = zones.find(hours.zone);
  if (zone == zones.end()) return Instant::max();
  const std::int64_t offset = offset_seconds(zone->second, at);
  const std::int64_t midnight = floor_day(utc_seconds(at) + offset) * kDaySeconds - offset;
  Instant next = Instant(std::chrono::seconds(midnight + kDaySeconds));
  for (const std::string* clock : {&hours.from, &hours.to}) {
    const Instant change(std::chrono::seconds(midnight + parse_clock(*clock).value_or(0)));
    if (change > at) next = std::min(next, change);
  }
  for (const ZoneOffset& change : zone->second)
    if (change.from > at) return std::min(next, change.from);
  return next;
}

std::string hours_problem(const Hours& hours, const Zones& zones) {
  if (!parse_clock(hours.from) || !parse_clock(hours.to))
    return "hours are written like from: \"22:00\", to: \"06:00\"";
  if (hours.from == hours.to) return "the span of hours is empty: from equals to";
  if (hours.zone.empty()) return "hours need a zone, for example zone: Europe/Madrid";
  if (!zones.contains(hours.zone)) return "there is no time zone '" + hours.zone + "'";
  return {};
}

}  // namespace tranche::engine
