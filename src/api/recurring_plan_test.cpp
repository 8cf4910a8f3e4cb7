// SPDX-License-Identifier: Apache-2.0
#include "api/recurring_plan.hpp"

#include <date/tz.h>
#include <doctest/doctest.h>
#include <set>

#include "base/text.hpp"

namespace tranche::api {
namespace {

using namespace std::chrono_literals;

engine::RecurringJob job_of(const wire::RecurringSpec& spec, Instant now) {
  const auto first = first_times(spec, spec.zone, now);
  REQUIRE(first);
  return {.every = spec.every,
          .zone = spec.zone,
          .times = first->times,
          .rule = first->rule,
          .planned_to = first->planned_to};
}

// As time goes: each time is used up when it comes, and what follows is planned when few are left.
std::vector<Instant> run_until(engine::RecurringJob job, Instant end) {
  std::vector<Instant> ran;
  while (!job.times.empty() && job.times.front() < end) {
    ran.push_back(job.times.front());
    job.times.erase(job.times.begin());
    const auto next = times_to_follow(job, ran.back());
    if (!next) continue;
    CHECK(next->planned_from == job.planned_to);
    if (next->times.empty()) job.rule.clear();
    job.times.insert(job.times.end(), next->times.begin(), next->times.end());
    job.planned_to = next->planned_to;
  }
  return ran;
}

// The date library by itself is the judge: which local day and time an instant is.
date::local_seconds local_by_library(const std::string& zone, Instant at) {
  const date::sys_seconds utc{std::chrono::floor<std::chrono::seconds>(at).time_since_epoch()};
  return date::locate_zone(zone)->to_local(utc);
}

TEST_CASE("recurring plan: ten years of weekdays, each once and at its local time") {
  const Instant now = *parse_instant("2026-11-16T12:00:00Z");
  const Instant end = *parse_instant("2036-11-16T12:00:00Z");
  const auto ran = run_until(job_of({.every = "weekdays 22:00", .zone = "Europe/Madrid"}, now), end);
  std::set<date::local_days> days;
  for (const Instant at : ran) {
    const auto local = local_by_library("Europe/Madrid", at);
    const auto day = date::floor<date::days>(local);
    CHECK(local - day == 22h);
    CHECK(date::weekday(day).iso_encoding() <= 5);
    CHECK(days.insert(day).second);
  }
  std::size_t weekdays = 0;
  for (date::local_days day = date::local_days(date::year(2026) / 11 / 16);
       day < date::local_days(date::year(2036) / 11 / 16);
       day += date::days(1))
    weekdays += date::weekday(day).iso_encoding() <= 5;
  CHECK(ran.size() == weekdays);
}

TEST_CASE("recurring plan: an hour that the clocks skip or show twice does not shift what follows") {
  const Instant now = *parse_instant("2026-11-16T12:00:00Z");
  const Instant end = *parse_instant("2029-11-16T12:00:00Z");
  const auto ran = run_until(job_of({.every = "day 02:30", .zone = "Europe/Madrid"}, now), end);
  CHECK(ran.size() == 3 * 365 + 1);  // 2028 has 366 days.
  std::size_t moved = 0;
  for (const Instant at : ran) {
    const auto local = local_by_library("Europe/Madrid", at);
    moved += local - date::floor<date::days>(local) != 2h + 30min;
  }
  CHECK(moved == 3);  // The three nights in March on which there is no 02:30.
}

TEST_CASE("recurring plan: every second week stays every second week") {
  const Instant now = *parse_instant("2026-11-16T12:00:00Z");
  const auto ran =
      run_until(job_of({.every = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH 06:00", .zone = "UTC"}, now),
                *parse_instant("2031-11-16T12:00:00Z"));
  for (std::size_t i = 2; i < ran.size(); ++i) CHECK(ran[i] - ran[i - 2] == 14 * 24h);
  CHECK(ran.size() > 250);
}

TEST_CASE("recurring plan: a date ends it, a count ends it, and a long sleep does not") {
  const Instant now = *parse_instant("2026-11-16T12:00:00Z");
  const Instant far = *parse_instant("2040-01-01T00:00:00Z");
  const auto dated =
      run_until(job_of({.every = "day 03:00", .zone = "UTC", .until = "2028-11-16"}, now), far);
  CHECK(dated.size() == 731);
  CHECK(text(dated.back()) == "2028-11-16T03:00:00Z");
  const auto counted = run_until(job_of({.every = "week 03:00", .zone = "UTC", .times = 100}, now), far);
  CHECK(counted.size() == 100);
  engine::RecurringJob slept = job_of({.every = "day 03:00", .zone = "UTC"}, now);
  slept.times.clear();
  const Instant later = *parse_instant("2031-05-05T12:00:00Z");
  const auto next = times_to_follow(slept, later);
  REQUIRE(next);
  CHECK(text(next->times.front()) == "2031-05-06T03:00:00Z");
}

}  // namespace
}  // namespace tranche::api
