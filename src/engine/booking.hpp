// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bookings: capacity claimed for windows of time. Zones and recurrences were expanded at the edge; what is
// kept of them is what the person wrote.
#include <algorithm>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "engine/contract.hpp"
#include "engine/lease.hpp"
#include "wire/ask.hpp"
#include "wire/booking.hpp"

namespace tranche::engine {

using wire::BookingState;
using wire::ClaimKind;
using wire::WantedEnvironment;
using wire::WindowState;

struct TimeSpan {
  Instant from{};
  Instant to{};
  auto operator<=>(const TimeSpan&) const = default;
};
BOOST_DESCRIBE_STRUCT(TimeSpan, (), (from, to))

struct BookedPlace {  // Of one member of a gang.
  NodeId node{};
  std::vector<Slice> slices{};
};
BOOST_DESCRIBE_STRUCT(BookedPlace, (), (node, slices))

struct BookedWindow {
  Instant from{};
  Instant to{};
  WindowState state = WindowState::kPlanned;
  std::vector<BookedPlace> places{};
  std::int64_t missing_milli = 0;  // Of what was booked, so much is not there since then.
  Instant missing_since{};
  std::int64_t missed_milli_seconds = 0;  // Before that.

  // Until then, all that was not there.
  [[nodiscard]] std::int64_t missed_until(Instant at) const {
    const auto since = std::chrono::floor<std::chrono::seconds>(std::min(at, to) - missing_since).count();
    return missed_milli_seconds + (missing_milli == 0 ? 0 : missing_milli * std::max<std::int64_t>(since, 0));
  }
};
BOOST_DESCRIBE_STRUCT(BookedWindow,
                      (),
                      (from, to, state, places, missing_milli, missing_since, missed_milli_seconds))

struct Booking {
  ClaimId id{};
  ClaimKind kind = ClaimKind::kBooking;
  PartyId owner{};   // Whoever is at or below may use it.
  PartyId tenant{};  // Zero for maintenance.
  std::string name{};
  wire::Ask ask{};
  std::uint32_t trust_group = 0;
  std::string zone{};        // IANA name, as written.
  std::string recurrence{};  // RFC 5545, as written; empty: once.
  WantedEnvironment environment{};
  BookingState state = BookingState::kBooked;
  std::vector<BookedWindow> windows{};  // In order of time; they do not overlap.
  Instant made{};
  std::uint64_t version = 0;
  ContractId contract{};  // By which it was bought; zero: not on the exchange.
};
BOOST_DESCRIBE_STRUCT(Booking,
                      (),
                      (id,
                       kind,
                       owner,
                       tenant,
                       name,
                       ask,
                       trust_group,
                       zone,
                       recurrence,
                       environment,
                       state,
                       windows,
                       made,
                       version,
                       contract))

struct BookWindows {
  PartyId owner{};  // Zero: the actor.
  std::string name{};
  wire::Ask ask{};
  std::vector<TimeSpan> windows{};
  std::string zone{};
  std::string recurrence{};
  WantedEnvironment environment{};
  std::int32_t utc_offset_seconds = 0;  // Of the zone, for the times a refusal suggests.
  bool open_ended = false;  // The recurrence has no end: as many windows as quotas let one book ahead.
};
struct PlanMaintenance {
  NodeId node{};
  std::string name{};  // Why, for people.
  std::vector<TimeSpan> windows{};
  std::string zone{};
  std::string recurrence{};
  std::int32_t utc_offset_seconds = 0;
};
struct WindowsBooked {
  ClaimId id{};
  ClaimKind kind = ClaimKind::kBooking;
  PartyId owner{};
  PartyId tenant{};
  std::string name{};
  wire::Ask ask{};
  std::uint32_t trust_group = 0;
  std::string zone{};
  std::string recurrence{};
  WantedEnvironment environment{};
  std::vector<BookedWindow> windows{};
  ContractId contract{};
};
BOOST_DESCRIBE_STRUCT(
    WindowsBooked,
    (),
    (id, kind, owner, tenant, name, ask, trust_group, zone, recurrence, environment, windows, contract))

struct CancelBooking {
  ClaimId id{};
};
struct BookingCancelled {
  ClaimId id{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(BookingCancelled, (), (id, owner))

struct WindowOpened {
  ClaimId id{};
  std::uint32_t window = 0;
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(WindowOpened, (), (id, window, owner))

struct WindowClosed {
  ClaimId id{};
  std::uint32_t window = 0;
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(WindowClosed, (), (id, window, owner))

struct WindowShort {  // So much of an open window is not there from now on; zero: all of it is.
  ClaimId id{};
  std::uint32_t window = 0;
  std::int64_t missing_milli = 0;
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(WindowShort, (), (id, window, missing_milli, owner))

struct WindowMoved {  // What was booked is no longer usable; this takes its place.
  ClaimId id{};
  std::uint32_t window = 0;
  std::vector<BookedPlace> places{};
  std::string why{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(WindowMoved, (), (id, window, places, why, owner))

struct WindowsChanged {  // A part of what was bought was sold on; this is what is left.
  ClaimId id{};
  std::vector<BookedWindow> windows{};
  std::string why{};
  PartyId owner{};
};
BOOST_DESCRIBE_STRUCT(WindowsChanged, (), (id, windows, why, owner))

}  // namespace tranche::engine
