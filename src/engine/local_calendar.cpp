// SPDX-License-Identifier: Apache-2.0
#include "engine/local_calendar.hpp"

#include "engine/billing.hpp"
#include "engine/decide.hpp"
#include "engine/hours.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

using std::chrono::days;
using std::chrono::local_days;
using std::chrono::year_month_day;
using wire::Period;

constexpr std::size_t kOffsetsMost = 2000;

local_days day_of(const std::vector<ZoneOffset>& offsets, Instant at) {
  const auto local = at.time_since_epoch() + std::chrono::seconds(offset_seconds(offsets, at));
  return local_days(std::chrono::floor<days>(local));
}

local_days first_day(Period period, local_days day) {
  if (period == Period::kDay) return day;
  if (period == Period::kWeek) return day - days((std::chrono::weekday(day) - std::chrono::Monday).count());
  const year_month_day date(day);
  return local_days(date.year() / date.month() / 1);
}

local_days next_first_day(Period period, local_days first) {
  if (period == Period::kDay) return first + days(1);
  if (period == Period::kWeek) return first + days(7);
  return first_day(period, first + days(32));
}

// The first instant at which the zone's clocks show midnight of that day, or later: some zones skip midnight.
Instant midnight(const std::vector<ZoneOffset>& offsets, local_days day) {
  const Instant utc{std::chrono::duration_cast<Duration>(day.time_since_epoch())};
  if (offsets.empty()) return utc;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Instant at = utc - std::chrono::seconds(offsets[i].seconds);
    const bool begun = i == 0 || offsets[i].from <= at;
    if (!begun) return offsets[i].from;  // The change went past it.
    if (i + 1 == offsets.size() || at < offsets[i + 1].from) return at;
  }
  return utc;
}

const std::vector<ZoneOffset>& offsets_of(const State& state, PartyId party) {
  static const std::vector<ZoneOffset> kUtc;
  const auto found = state.zones.find(zone_of(state, party));
  return found == state.zones.end() ? kUtc : found->second;
}

}  // namespace

std::string zone_of(const State& state, PartyId party) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent))
    if (!at->time_zone.empty()) return at->time_zone;
  return "UTC";
}

CalendarSpan span_around(const std::vector<ZoneOffset>& offsets, Period period, Instant at) {
  const local_days first = first_day(period, day_of(offsets, at));
  return {midnight(offsets, first), midnight(offsets, next_first_day(period, first))};
}

CalendarSpan span_around(const State& state, PartyId party, Period period, Instant at) {
  return span_around(offsets_of(state, party), period, at);
}

Instant midnight_of(const State& state, PartyId party, Instant day) {
  return midnight(offsets_of(state, party), local_days(std::chrono::floor<days>(day.time_since_epoch())));
}

Instant month_named(const CalendarSpan& span) {
  return span_around({}, Period::kMonth, span.from + (span.to - span.from) / 2).from;
}

CalendarSpan month_by_name(const State& state, PartyId party, Instant month) {
  return span_around(state, party, Period::kMonth, month + days(14));
}

Decision decide(const State& state, const Envelope&, const ResolveZone& command) {
  const auto known = state.zones.find(command.zone);
  const bool sane =
      !command.zone.empty() && !command.offsets.empty() && command.offsets.size() <= kOffsetsMost;
  if (!sane || (known != state.zones.end() && known->second == command.offsets)) return Events{};
  return Events{ZoneResolved{command.zone, command.offsets}};
}

void recount_calendars(State& state, Instant at) {
  for (auto& [payer, billing] : state.billing) billing.month = {};
  for (const auto& [id, party] : state.parties) recount_spent(state, id, at);
}

void apply(State& state, const Envelope& envelope, const ZoneResolved& event) {
  state.zones.insert_or_assign(event.zone, event.offsets);
  recount_calendars(state, envelope.at);
}

}  // namespace tranche::engine
