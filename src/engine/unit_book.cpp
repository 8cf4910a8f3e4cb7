// SPDX-License-Identifier: Apache-2.0
#include "engine/unit_book.hpp"

#include <algorithm>
#include <array>

#include "engine/state.hpp"

namespace tranche::engine {
namespace {

constexpr std::chrono::days kDaysKept{36};  // A month, and five weeks for the same hours of earlier weeks.
constexpr std::size_t kHours = 24;

Instant day_of(Instant at) {
  return std::chrono::floor<std::chrono::days>(at);
}

UnitDay& day_for(State& state, PartyId party, Instant at) {
  auto& days = state.work.unit_days;
  const UnitDayKey key{party, day_of(at)};
  const auto found = days.find(key);
  if (found != days.end()) return found->second;
  const auto oldest = days.lower_bound(UnitDayKey{party, Instant{}});
  days.erase(oldest, days.lower_bound(UnitDayKey{party, key.day - kDaysKept}));
  return days.emplace(key, UnitDay{.key = key}).first->second;
}

template <class Take>
void for_days(const State& state, PartyId party, Instant from, Take take) {
  const auto& days = state.work.unit_days;
  for (auto at = days.lower_bound(UnitDayKey{party, from}); at != days.end() && at->first.party == party;
       ++at)
    take(at->second);
}

}  // namespace

bool is_unit_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames{
      "frames", "seconds", "steps", "requests", "tokens", "tokens_in", "tokens_out", "units"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_counted_as(std::string_view counted, std::string_view name) {
  return counted == name || (name == "tokens" && (counted == "tokens_in" || counted == "tokens_out"));
}

Instant period_start(wire::Period period, Instant at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  switch (period) {
    case wire::Period::kDay:
      return day;
    case wire::Period::kWeek:  // From Monday on.
      return day - (std::chrono::weekday(day) - std::chrono::Monday);
    case wire::Period::kMonth: {
      const std::chrono::year_month_day date(day);
      return std::chrono::sys_days(date.year() / date.month() / 1);
    }
  }
  return day;
}

Instant period_end(wire::Period period, Instant at) {
  const Instant start = period_start(period, at);
  if (period == wire::Period::kDay) return start + std::chrono::days(1);
  if (period == wire::Period::kWeek) return start + std::chrono::days(7);
  return period_start(period, start + std::chrono::days(31));
}

void note_units(State& state, PartyId owner, const CountedUnits& counted) {
  if (counted.count <= 0) return;
  const PartyId tenant = tenant_of(state, owner);
  for (const Party* at = state.party(owner); at != nullptr; at = state.party(at->parent)) {
    UnitTally& tally = day_for(state, at->id, counted.at).units[counted.unit];
    tally.count += counted.count;
    if (at->id != tenant) continue;
    if (counted.busy > Duration{}) {
      tally.timed += counted.count;
      tally.busy_microseconds += counted.busy.count();
    }
    tally.hours.resize(kHours);
    const auto hour = std::chrono::floor<std::chrono::hours>(counted.at - day_of(counted.at)).count();
    tally.hours[static_cast<std::size_t>(hour)] += counted.count;
  }
}

void note_unit_charge(State& state, PartyId owner, const UnitCounts& units, Money charged, Instant at) {
  for (const auto& [unit, count] : units) {
    UnitTally& tally = day_for(state, tenant_of(state, owner), at).units[unit];
    tally.charged_for += std::max<std::int64_t>(count, 0);
    tally.charged.micros += charged.micros;
  }
}

std::int64_t units_done(const State& state, PartyId party, std::string_view name, Instant from) {
  std::int64_t sum = 0;
  for_days(state, party, from, [&](const UnitDay& day) {
    for (const auto& [unit, tally] : day.units)
      if (is_counted_as(unit, name)) sum += tally.count;
  });
  return sum;
}

UnitCounts units_done(const State& state, const Party& party, Instant at) {
  UnitCounts counts;
  for_days(state, party.id, period_start(party.quota.period, at), [&](const UnitDay& day) {
    for (const auto& [unit, tally] : day.units) counts[unit] += tally.count;
  });
  return counts;
}

UnitTally tally_of(const State& state, PartyId tenant, std::string_view name, Instant from) {
  UnitTally sum;
  for_days(state, tenant, from, [&](const UnitDay& day) {
    const auto found = day.units.find(std::string(name));
    if (found == day.units.end()) return;
    sum.count += found->second.count;
    sum.timed += found->second.timed;
    sum.busy_microseconds += found->second.busy_microseconds;
    sum.charged_for += found->second.charged_for;
    sum.charged.micros += found->second.charged.micros;
  });
  return sum;
}

}  // namespace tranche::engine
