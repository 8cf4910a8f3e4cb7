// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many units of work (frames, seconds, steps, requests, tokens) each party and all below it did, by day:
// what quotas in units, estimates and the forecast of demand in units are read from.
#include <boost/describe/class.hpp>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/money.hpp"
#include "base/time.hpp"
#include "wire/quota.hpp"

namespace tranche::engine {

using UnitCounts = std::map<std::string, std::int64_t>;  // By name: frames, tokens_in.

struct UnitTally {
  std::int64_t count = 0;
  // The rest of tenants alone.
  std::int64_t timed = 0;  // Of those that told how long they took: so long on their slices.
  std::int64_t busy_microseconds = 0;
  std::int64_t charged_for = 0;  // Of those that were charged for: so much, devices and all.
  Money charged{};
  std::vector<std::int64_t> hours{};  // Counts by hour of the day.
};
BOOST_DESCRIBE_STRUCT(UnitTally, (), (count, timed, busy_microseconds, charged_for, charged, hours))

struct UnitDayKey {
  PartyId party{};
  Instant day{};
  auto operator<=>(const UnitDayKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(UnitDayKey, (), (party, day))

struct UnitDay {
  UnitDayKey key{};
  std::map<std::string, UnitTally> units{};
};
BOOST_DESCRIBE_STRUCT(UnitDay, (), (key, units))

struct CountedUnits {
  std::string unit{};
  std::int64_t count = 0;
  std::vector<JobId> jobs{};  // That did them together; the first has them on its bill.
  Instant at{};
  Duration busy{};                         // How long they took on their slices; zero: nobody told.
  Duration in_place_of = Duration::max();  // The longest time that they stand for in fair share.
};

struct State;
struct Party;

// Names that a quota, a price or a weight may have. "tokens" stands for those in and those out, too.
[[nodiscard]] bool is_unit_name(std::string_view name);
[[nodiscard]] bool is_counted_as(std::string_view counted, std::string_view name);

[[nodiscard]] Instant period_start(wire::Period, Instant at);
[[nodiscard]] Instant period_end(wire::Period, Instant at);

void note_units(State&, PartyId owner, const CountedUnits&);
void note_unit_charge(State&, PartyId owner, const UnitCounts&, Money charged, Instant at);
// Of a party and all below it, since the day that `from` is the first instant of.
[[nodiscard]] std::int64_t units_done(const State&, PartyId, std::string_view name, Instant from);
// All units of its running period.
[[nodiscard]] UnitCounts units_done(const State&, const Party&, Instant at);
[[nodiscard]] UnitTally tally_of(const State&, PartyId tenant, std::string_view name, Instant from);

}  // namespace tranche::engine
