// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API takes and says about bookings and maintenance.
#include <array>
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/booking.hpp"
#include "wire/fields.hpp"

namespace tranche::wire {

// When: as a person writes it, in a zone.
struct BookingAsk {
  std::string gpus{};  // H100:0.5, 10GB, A100-80GB:2, ...
  std::string from{};
  Duration length{};
  std::string zone{};  // IANA name; empty: that of the owner, else UTC.
  std::string every{};
  std::uint32_t times = 0;
  std::string until{};
  std::string name{};
  std::string owner{};
  std::string isolation{};
  std::uint32_t nodes = 1;
  bool simulated = false;
  WantedEnvironment environment{};
};
BOOST_DESCRIBE_STRUCT(
    BookingAsk,
    (),
    (gpus, from, length, zone, every, times, until, name, owner, isolation, nodes, simulated, environment))
template <>
struct Fields<BookingAsk> {
  static constexpr std::array<std::string_view, 3> kRequired{"gpus", "from", "length"};
  static constexpr std::array kDocs{
      FieldDoc{"from", "2026-11-20 14:00, tomorrow 09:00, mon 09:00, 14:00, in 2h, now, or RFC 3339"},
      FieldDoc{"length", "of each window"},
      FieldDoc{"zone", "IANA name of the zone that `from` is read in"},
      FieldDoc{"every", "day, weekday, weekend, week, month, mon,wed or a rule of RFC 5545"},
      FieldDoc{"owner", "party that may use it, with everyone below; empty: yourself"}};
};

struct MaintenanceAsk {
  std::string node{};
  std::string from{};
  Duration length{};
  std::string zone{};
  std::string every{};
  std::uint32_t times = 0;
  std::string until{};
  std::string name{};
};
BOOST_DESCRIBE_STRUCT(MaintenanceAsk, (), (node, from, length, zone, every, times, until, name))
template <>
struct Fields<MaintenanceAsk> {
  static constexpr std::array<std::string_view, 3> kRequired{"node", "from", "length"};
};

struct BookedDevice {
  DeviceId device{};
  std::string node{};
  std::int64_t milli = 0;
  std::int64_t vram_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(BookedDevice, (), (device, node, milli, vram_bytes))

struct WindowView {
  Instant from{};
  Instant to{};
  std::string from_local{};  // In the booking's zone.
  std::string to_local{};
  WindowState state = WindowState::kPlanned;
  std::vector<BookedDevice> devices{};
  std::string tests_local{};  // Of maintenance: when its work is over, and its devices are tested until `to`.
};
BOOST_DESCRIBE_STRUCT(WindowView, (), (from, to, from_local, to_local, state, devices, tests_local))

struct BookingView {
  ClaimId id{};
  ClaimKind kind = ClaimKind::kBooking;
  std::string name{};
  PartyId owner_id{};
  std::string owner{};
  BookingState state = BookingState::kBooked;
  std::string gpus{};
  std::int64_t gpu_milli = 0;
  bool simulated = false;
  std::string zone{};
  std::string recurrence{};
  WantedEnvironment environment{};
  Instant made{};
  std::vector<WindowView> windows{};
  std::string contract{};  // By which it was bought on the exchange.
};
BOOST_DESCRIBE_STRUCT(BookingView,
                      (),
                      (id,
                       kind,
                       name,
                       owner_id,
                       owner,
                       state,
                       gpus,
                       gpu_milli,
                       simulated,
                       zone,
                       recurrence,
                       environment,
                       made,
                       windows,
                       contract))

struct BookingList {
  std::vector<BookingView> items{};
};
BOOST_DESCRIBE_STRUCT(BookingList, (), (items))

}  // namespace tranche::wire
