// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rule by which a zone changes its offset for ever, as the last line of its file in the zone database
// states it (POSIX TZ, RFC 9636). The transitions listed in the file end in 2037.
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

namespace tranche::api {

struct YearlyDate {
  enum class Form { kMonthWeekDay, kJulian, kDayOfYear };
  Form form = Form::kMonthWeekDay;
  int month = 0, week = 0, weekday = 0;  // The week-th weekday of the month; week 5: the last.
  int day = 0;                           // Of the year: 1 to 365 without 29 February, or 0 to 365 with it.
  std::chrono::seconds time = std::chrono::hours(2);  // Of local time; may lie outside the day.

  [[nodiscard]] std::chrono::sys_seconds in(std::chrono::year year) const;  // As if local time were UTC.
};

struct ZoneRule {
  std::chrono::seconds standard{0};
  std::chrono::seconds summer{0};
  bool changes = false;
  YearlyDate summer_begins{}, summer_ends{};

  // The instants of a year at which the offset changes to the second value, in order.
  using Change = std::pair<std::chrono::sys_seconds, std::chrono::seconds>;
  [[nodiscard]] std::pair<Change, Change> changes_in(std::chrono::year year) const;
};

[[nodiscard]] std::optional<ZoneRule> parse_zone_rule(std::string_view text);

}  // namespace tranche::api
