// SPDX-License-Identifier: Apache-2.0
#include "api/recurrence.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <libical/ical.h>
#include <memory>

namespace tranche::api {
namespace {

using std::chrono::seconds;

constexpr std::size_t kSpansMost = 1000;
constexpr std::size_t kStepsMax = 20'000;  // Of a rule that skips most of what it goes through.
constexpr auto kWindowsAhead = std::chrono::hours(24 * 366);

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

constexpr std::array<std::string_view, 7> kDays{
    "MONDAYS", "TUESDAYS", "WEDNESDAYS", "THURSDAYS", "FRIDAYS", "SATURDAYS", "SUNDAYS"};

// "mon,wed" -> "MO,WE": two letters of a day or more of them; empty when it is something else.
std::string days_list(std::string_view every) {
  std::string list;
  while (!every.empty()) {
    const std::size_t end = std::min(every.find(','), every.size());
    const std::string day = upper_case(every.substr(0, end));
    const auto known = std::find_if(kDays.begin(), kDays.end(), [&](std::string_view name) {
      return day.size() >= 2 && name.starts_with(day);
    });
    if (known == kDays.end()) return {};
    list += (list.empty() ? "" : ",") + std::string(known->substr(0, 2));
    every.remove_prefix(std::min(end + 1, every.size()));
  }
  return list;
}

std::string rule_of(std::string_view every) {
  if (every == "day") return "FREQ=DAILY";
  if (every == "weekday") return "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR";
  if (every == "weekend") return "FREQ=WEEKLY;BYDAY=SA,SU";
  if (every == "week") return "FREQ=WEEKLY";
  if (every == "month") return "FREQ=MONTHLY";
  std::string rule = upper_case(every);
  if (rule.starts_with("RRULE:")) rule.erase(0, 6);
  if (rule.starts_with("FREQ=")) return rule;
  const std::string days = days_list(every);
  return days.empty() ? "" : "FREQ=WEEKLY;BYDAY=" + days;
}

std::string ical_text(LocalTime at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  char out[32];
  std::snprintf(out,
                sizeof out,
                "%04d%02u%02uT%02ld%02ld%02ld",
                static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()),
                static_cast<long>(time.hours().count()),
                static_cast<long>(time.minutes().count()),
                static_cast<long>(time.seconds().count()));
  return out;
}

LocalTime local_of(const icaltimetype& time) {
  const auto day = std::chrono::local_days(std::chrono::year(time.year) /
                                           std::chrono::month(static_cast<unsigned>(time.month)) /
                                           std::chrono::day(static_cast<unsigned>(time.day)));
  return LocalTime(day) + std::chrono::hours(time.hour) + std::chrono::minutes(time.minute) +
         seconds(time.second);
}

Span resolve(const Zone& zone, LocalTime from, LocalTime to) {
  Span span{zone.instant(from), zone.instant(to)};
  // It was to begin in an hour that the clocks skip, and ends soon after: it begins when they have.
  if (span.to <= span.from) span.from = zone.first_instant(from);
  return span;
}

// "weekdays 22:00" in its two parts: on which days, and when.
struct DaysAndTime {
  std::string days{}, time{};
};
std::optional<DaysAndTime> split(const std::string& every) {
  const auto space = every.rfind(' ');
  if (space == std::string::npos) return std::nullopt;
  DaysAndTime out{every.substr(0, space), every.substr(space + 1)};
  if (out.time.find(':') == std::string::npos) return std::nullopt;
  for (const std::string_view plural : {"days", "weekdays", "weekends", "weeks", "months"})
    if (out.days == plural) out.days.pop_back();
  if (out.days == "daily") out.days = "day";
  return out;
}

struct IteratorEnd {
  void operator()(icalrecur_iterator* iterator) const { icalrecur_iterator_free(iterator); }
};

}  // namespace

Result<Repeat, std::string> read_repeat(std::string_view every, std::uint32_t times, std::string_view until) {
  if (every.empty()) {
    if (times > 0 || !until.empty()) return refuse(std::string("say how it repeats: --every day"));
    return Repeat{};
  }
  Repeat repeat{.rule = rule_of(every)};
  if (repeat.rule.empty())
    return refuse("'" + std::string(every) +
                  "' is no recurrence; give day, weekday, weekend, week, month, mon,wed or an RRULE");
  if (repeat.rule.find("SECONDLY") != std::string::npos || repeat.rule.find("MINUTELY") != std::string::npos)
    return refuse(std::string("a booking repeats every hour at most"));
  const bool ends =
      repeat.rule.find("COUNT=") != std::string::npos || repeat.rule.find("UNTIL=") != std::string::npos;
  if (ends && (times > 0 || !until.empty())) return refuse(std::string("the rule says already when it ends"));
  if (times > 0 && !until.empty()) return refuse(std::string("give --times or --until, not both"));
  if (times > 0) repeat.rule += ";COUNT=" + std::to_string(times);
  if (!until.empty()) {
    std::string date;
    for (const char c : until)
      if (c != '-') date += c;
    if (date.size() != 8 || date.find_first_not_of("0123456789") != std::string::npos)
      return refuse(std::string("--until takes a date such as 2026-12-31"));
    repeat.rule += ";UNTIL=" + date + "T235959";
  }
  repeat.open_ended = !ends && times == 0 && until.empty();
  const icalrecurrencetype parsed = icalrecurrencetype_from_string(repeat.rule.c_str());
  if (parsed.freq == ICAL_NO_RECURRENCE) return refuse("'" + repeat.rule + "' is not a rule of RFC 5545");
  return repeat;
}

Result<std::vector<LocalTime>, std::string> occurrences(
    const Zone& zone, LocalTime from, const Repeat& repeat, std::size_t most, seconds ahead) {
  icalrecurrencetype rule = icalrecurrencetype_from_string(repeat.rule.c_str());
  if (icaltime_is_utc(rule.until)) {
    // Occurrences are compared as clocks on the wall show them.
    const Instant end{std::chrono::duration_cast<Duration>(seconds(icaltime_as_timet(rule.until)))};
    rule.until = icaltime_from_string(ical_text(zone.local(end)).c_str());
  }
  const icaltimetype start = icaltime_from_string(ical_text(from).c_str());
  const std::unique_ptr<icalrecur_iterator, IteratorEnd> iterator(icalrecur_iterator_new(rule, start));
  if (!iterator) return refuse("'" + repeat.rule + "' cannot be followed");
  std::vector<LocalTime> times;
  for (std::size_t step = 0; step < kStepsMax && times.size() < most; ++step) {
    const icaltimetype next = icalrecur_iterator_next(iterator.get());
    if (icaltime_is_null_time(next) || next.year > 2098) break;
    const LocalTime local = local_of(next);
    if (local < from) continue;
    if (local > from + ahead) break;
    times.push_back(local);
  }
  return times;
}

Result<std::vector<Span>, std::string> expand(const Zone& zone,
                                              const LocalWindow& window,
                                              const Repeat& repeat,
                                              std::size_t most) {
  const auto length = std::chrono::duration_cast<seconds>(window.length);
  if (repeat.rule.empty()) {
    const Instant from = zone.instant(window.from);
    return std::vector<Span>{{from, from + window.length}};
  }
  const auto times = occurrences(zone, window.from, repeat, most, kWindowsAhead);
  if (!times) return refuse(times.error());
  if (times->empty()) return refuse("'" + repeat.rule + "' never happens in the year after --from");
  std::vector<Span> spans;
  spans.reserve(times->size());
  for (const LocalTime local : *times) spans.push_back(resolve(zone, local, local + length));
  return spans;
}

Result<EveryRule, wire::Problem> read_every(const Every& every, Instant now) {
  const auto wrong = [](std::string what, std::string message, std::string hint = {}) {
    return refuse(wire::Problem{std::move(what), std::move(message), std::move(hint)});
  };
  const auto zone = Zone::find(every.zone);
  if (!zone)
    return wrong("zone", "there is no time zone '" + every.zone + "'", "an IANA name such as Europe/Madrid");
  const auto parts = split(every.days_and_time);
  if (!parts) return wrong("every", "must be days and a time of day", "for example: weekdays 22:00");
  const auto from = read_time(parts->time, *zone, now);
  if (!from) return wrong("every", from.error());
  const auto repeat = read_repeat(parts->days, every.times, every.until);
  if (!repeat) return wrong("every", repeat.error());
  return EveryRule{zone, from->local, *repeat};
}

Result<std::vector<Span>, wire::Problem> spans_of(const Every& every, Instant now) {
  const auto rule = read_every(every, now);
  if (!rule) return refuse(rule.error());
  auto spans = expand(*rule->zone, {rule->from, every.length}, rule->repeat, kSpansMost);
  if (!spans) return refuse(wire::Problem{"every", spans.error()});
  std::erase_if(*spans, [now](const Span& span) { return span.from <= now; });
  if (spans->empty()) return refuse(wire::Problem{"until", "no time is left before then"});
  return std::move(*spans);
}

}  // namespace tranche::api
