// SPDX-License-Identifier: Apache-2.0
#pragma once
// Days, weeks and months as a party sees them on its wall: for budgets and billing periods. Offsets of zones
// are resolved at the edge and journaled, so that a replay needs no database of zones.
#include <boost/describe/class.hpp>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/hours.hpp"
#include "wire/quota.hpp"

namespace tranche::engine {

struct State;

struct ResolveZone {  // From the edge: a party names this zone.
  std::string zone{};
  std::vector<wire::ZoneOffset> offsets{};
};
struct ZoneResolved {
  std::string zone{};
  std::vector<wire::ZoneOffset> offsets{};
};
BOOST_DESCRIBE_STRUCT(ZoneResolved, (), (zone, offsets))

struct CalendarSpan {
  Instant from{}, to{};
  bool operator==(const CalendarSpan&) const = default;
};
BOOST_DESCRIBE_STRUCT(CalendarSpan, (), (from, to))

// The zone of the nearest party at or above that says one; UTC where none does.
[[nodiscard]] std::string zone_of(const State&, PartyId party);
// The day, week (from Monday) or month that an instant is in, by a zone's clocks. No offsets: UTC.
[[nodiscard]] CalendarSpan span_around(const std::vector<wire::ZoneOffset>& offsets,
                                       wire::Period period,
                                       Instant at);
[[nodiscard]] CalendarSpan span_around(const State&, PartyId party, wire::Period period, Instant at);
// Somebody's clocks are others now: what was worked out by the old ones is worked out anew.
void recount_calendars(State&, Instant at);
// The month that holds most of a span, as its first instant in UTC: what stands in the id of an invoice.
[[nodiscard]] Instant month_named(const CalendarSpan& span);
// The same month by the party's clocks.
[[nodiscard]] CalendarSpan month_by_name(const State&, PartyId party, Instant month);

}  // namespace tranche::engine
