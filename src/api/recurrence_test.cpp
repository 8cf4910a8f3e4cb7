// SPDX-License-Identifier: Apache-2.0
#include "api/recurrence.hpp"

#include <cstdlib>
#include <ctime>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <set>

#include "api/zone_rule.hpp"
#include "base/text.hpp"

namespace tranche::api {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::local_days;

LocalTime local(int year, unsigned month, unsigned day, Duration time = {}) {
  return LocalTime(local_days(std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day))) +
         std::chrono::duration_cast<std::chrono::seconds>(time);
}

Zone madrid() {
  return *Zone::find("Europe/Madrid");
}

// The offset that the C library gives, which reads the zone files by itself.
long offset_by_libc(Instant at) {
  const std::time_t when = std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  std::tm broken{};
  ::localtime_r(&when, &broken);
  return broken.tm_gmtoff;
}

// Every zone in the long run; otherwise one in sixty, and those with odd rules.
std::vector<std::string> zones_to_try() {
  std::vector<std::string> names;
  const bool all = std::getenv("TRANCHE_LONG") != nullptr;
  std::set<std::string> found;
  const std::filesystem::path folder = "/usr/share/zoneinfo";
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = file.path().lexically_relative(folder).string();
    std::string magic(4, ' ');
    std::ifstream(file.path()).read(magic.data(), 4);
    const bool copy = name.starts_with("posix") || name.starts_with("right") || name == "localtime" ||
                      name == "Factory";  // Says only that no zone was chosen.
    if (magic == "TZif" && !copy) found.insert(name);
  }
  std::size_t number = 0;
  for (const std::string& name : found) {
    const bool odd = name == "Europe/Madrid" || name == "Africa/Casablanca" || name == "Europe/Dublin" ||
                     name == "America/Nuuk" || name == "Australia/Lord_Howe" || name == "America/New_York" ||
                     name == "Asia/Gaza" || name == "Antarctica/Troll" || name == "America/St_Johns";
    if (all || odd || number++ % 60 == 0) names.push_back(name);
  }
  return names;
}

TEST_CASE("zones: offsets from 2020 to 2040 are those of the C library, also after the listed transitions") {
  for (const std::string& name : zones_to_try()) {
    CAPTURE(name);
    const auto zone = Zone::find(name);
    REQUIRE(zone);
    ::setenv("TZ", name.c_str(), 1);
    ::tzset();
    for (const auto& change : zone->offsets()) {
      if (change.from == Instant{} || change.from > parse_instant("2041-01-01T00:00:00Z")) continue;
      CHECK(offset_by_libc(change.from) == change.seconds);
      CHECK(offset_by_libc(change.from - 1s) == zone->offset(change.from - 1s).count());
    }
    // Nor is there a change that was not seen.
    for (Instant at = *parse_instant("2020-01-05T12:00:00Z"); at < *parse_instant("2041-01-01T00:00:00Z");
         at += 24h * 7)
      REQUIRE(offset_by_libc(at) == zone->offset(at).count());
  }
  ::unsetenv("TZ");
  ::tzset();
}

// Around one change of clocks, a daily window that opens at `opens`.
void check_daily(const Zone& zone, Instant change, Duration opens, Duration length) {
  const auto first = std::chrono::floor<days>(zone.local(change)) - days(2);
  const LocalTime from = first + std::chrono::duration_cast<std::chrono::seconds>(opens);
  const auto spans = expand(zone, {from, length}, {.rule = "FREQ=DAILY;COUNT=5"}, 100);
  REQUIRE(spans);
  REQUIRE(spans->size() == 5);
  for (std::size_t day = 0; day < 5; ++day) {
    const Span& span = (*spans)[day];
    const LocalTime wanted_from = from + days(day);
    const LocalTime wanted_to = wanted_from + std::chrono::duration_cast<std::chrono::seconds>(length);
    REQUIRE(span.from < span.to);
    if (day > 0) REQUIRE((*spans)[day - 1].to <= span.from);
    // At the local time written, unless the clocks never show it; then within the skipped time after it.
    for (const auto& [at, wanted] : {std::pair{span.from, wanted_from}, std::pair{span.to, wanted_to}}) {
      const LocalTime shown = zone.local(at);
      if (shown == wanted) continue;
      const auto gap = zone.offset(change) - zone.offset(change - 1s);
      REQUIRE(gap > 0s);
      REQUIRE(shown > wanted);
      REQUIRE(shown - wanted <= gap);
      const LocalTime before = zone.local(change - 1s) + 1s;
      REQUIRE(wanted >= before);  // It lies in what was skipped.
      REQUIRE(wanted < before + gap);
    }
  }
}

TEST_CASE(
    "recurrence: at every change of clocks 2020-2040 a daily window opens and closes once, as written") {
  int changes = 0;
  for (const std::string& name : zones_to_try()) {
    CAPTURE(name);
    const auto zone = Zone::find(name);
    REQUIRE(zone);
    for (const auto& change : zone->offsets()) {
      if (change.from == Instant{} || change.from > parse_instant("2041-01-01T00:00:00Z")) continue;
      CAPTURE(text(change.from));
      ++changes;
      for (const Duration opens :
           {Duration(0h), Duration(90min), Duration(2h), Duration(150min), Duration(22h)})
        for (const Duration length : {Duration(20min), Duration(40min), Duration(3h), Duration(8h)})
          check_daily(*zone, change.from, opens, length);
    }
  }
  MESSAGE(changes << " changes of clocks");
  CHECK(changes > 200);
}

TEST_CASE("recurrence: days are named by two letters or more of them, and by nothing else") {
  for (const char* day : {"we", "wed", "Wednesday", "wednesdays"}) {
    CAPTURE(day);
    const auto repeat = read_repeat(day, 1, "");
    REQUIRE(repeat);
    CHECK(repeat->rule.find("BYDAY=WE") != std::string::npos);
  }
  for (const char* none : {"w", "weekdaze", "monkey", "mon,frog", "day,mon"}) {
    CAPTURE(none);
    CHECK_FALSE(read_repeat(none, 1, ""));
  }
}

TEST_CASE("recurrence: the nights of Madrid") {
  const Zone zone = madrid();
  // Skipped: counted with the offset before the gap. Twice: the first.
  CHECK(text(zone.instant(local(2027, 3, 28, 150min))) == "2027-03-28T01:30:00Z");
  CHECK(text(zone.instant(local(2027, 10, 31, 150min))) == "2027-10-31T00:30:00Z");
  CHECK(text(zone.instant(local(2040, 7, 1, 9h))) == "2040-07-01T07:00:00Z");
  // 02:30 to 03:10 in the night that skips from 02:00 to 03:00.
  const auto spans = expand(zone, {local(2027, 3, 27, 150min), 40min}, {.rule = "FREQ=DAILY;COUNT=3"}, 9);
  REQUIRE(spans);
  CHECK(text((*spans)[1].from) == "2027-03-28T01:00:00Z");
  CHECK(text((*spans)[1].to) == "2027-03-28T01:10:00Z");
  // A window that happens once lasts as long as was asked, whatever the clocks do.
  const auto once = expand(zone, {local(2027, 3, 27, 22h), 8h}, {}, 9);
  CHECK((*once)[0].to - (*once)[0].from == 8h);
}

TEST_CASE("recurrence: words and rules") {
  const Zone zone = madrid();
  const auto weekdays = read_repeat("weekday", 6, "");
  REQUIRE(weekdays);
  const auto spans = expand(zone, {local(2026, 11, 20, 9h), 3h}, *weekdays, 100);  // A Friday.
  REQUIRE(spans);
  CHECK(spans->size() == 6);
  CHECK(text((*spans)[0].from) == "2026-11-20T08:00:00Z");
  CHECK(text((*spans)[1].from) == "2026-11-23T08:00:00Z");
  CHECK(read_repeat("mon,wed", 0, "2026-12-31")->rule == "FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20261231T235959");
  CHECK(read_repeat("day", 0, "")->open_ended);
  CHECK_FALSE(read_repeat("FREQ=DAILY;COUNT=3", 0, "")->open_ended);
  CHECK_FALSE(read_repeat("now and then", 0, ""));
  CHECK_FALSE(read_repeat("FREQ=SECONDLY", 0, ""));
  CHECK_FALSE(read_repeat("FREQ=DAILY;BYDAY=XX", 0, ""));
  CHECK_FALSE(read_repeat("FREQ=DAILY;COUNT=3", 2, ""));
  CHECK_FALSE(
      expand(zone, {local(2026, 11, 20, 9h), 3h}, {.rule = "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, 9));
  // An end in UTC is compared with what the clocks show.
  const auto until =
      expand(zone, {local(2026, 7, 1, 9h), 1h}, {.rule = "FREQ=DAILY;UNTIL=20260703T070000Z"}, 9);
  CHECK(until->size() == 3);
}

TEST_CASE("recurrence: times as people write them") {
  const Zone zone = madrid();
  const Instant now = *parse_instant("2026-11-18T12:30:00Z");  // A Wednesday, 13:30 in Madrid.
  const auto read = [&](std::string_view given) {
    return text(zone.instant(read_time(given, zone, now)->local));
  };
  CHECK(read("tomorrow 09:00") == "2026-11-19T08:00:00Z");
  CHECK(read("2026-11-20 14:00") == "2026-11-20T13:00:00Z");
  CHECK(read("2026-11-20T14:00") == "2026-11-20T13:00:00Z");
  CHECK(read("today 18:00") == "2026-11-18T17:00:00Z");
  CHECK(read("14:00") == "2026-11-18T13:00:00Z");
  CHECK(read("13:00") == "2026-11-19T12:00:00Z");
  CHECK(read("Mon 9:00") == "2026-11-23T08:00:00Z");
  CHECK(read("wednesday 13:00") == "2026-11-25T12:00:00Z");
  CHECK(read_time("in 2h", zone, now)->exact == now + 2h);
  CHECK(read_time("now", zone, now)->exact == now);
  CHECK(read_time("2026-11-20T14:00:00+09:00", zone, now)->exact == parse_instant("2026-11-20T05:00:00Z"));
  for (const char* bad :
       {"", "soon", "tomorrow", "25:00", "2026-02-30 10:00", "mon", "in", "in -2h", "9", "x 09:00"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_time(bad, zone, now));
  }
}

TEST_CASE("zones: rules of the zone files") {
  const auto nuuk = parse_zone_rule("<-02>2<-01>,M3.5.0/-1,M10.5.0/0");
  REQUIRE(nuuk);
  CHECK(nuuk->standard == -2h);
  CHECK(nuuk->summer == -1h);
  const auto julian = parse_zone_rule("AAA3BBB,J60/2,300");
  REQUIRE(julian);
  CHECK(julian->summer_begins.in(std::chrono::year(2028)) ==
        std::chrono::sys_days(std::chrono::year(2028) / 3 / 1) + 2h);
  for (const char* bad : {"", "X", "CET", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.1.0,M1.1.0", "<x"})
    CHECK_FALSE(parse_zone_rule(bad));
}

TEST_CASE("recurrence: days and a time of day become windows of local time, also where clocks change") {
  const Instant now = *parse_instant("2026-10-22T12:00:00Z");
  const auto nights = spans_of({"weekend 22:00", "Europe/Madrid", 0, "2026-10-25", 8h}, now);
  REQUIRE(nights.has_value());
  REQUIRE(nights->size() == 2);  // Saturday and Sunday; clocks go back in between.
  CHECK(text((*nights)[0].from) == "2026-10-24T20:00:00Z");
  CHECK(text((*nights)[0].to) == "2026-10-25T05:00:00Z");
  CHECK(text((*nights)[1].from) == "2026-10-25T21:00:00Z");
  CHECK(text((*nights)[1].to) == "2026-10-26T05:00:00Z");
  CHECK(spans_of({"weekdays", "Europe/Madrid"}, now).error().path == "every");
  CHECK(spans_of({"weekdays 22:00", "Europe/Nowhere"}, now).error().path == "zone");
  CHECK(spans_of({"day 22:00", "UTC", 0, "2026-10-01"}, now).error().path == "every");
}

}  // namespace
}  // namespace tranche::api
