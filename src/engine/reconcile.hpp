// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where every microsecond of a device went, by UTC day. Kept as things happen: whenever something about a
// device changes, the time since the last change is counted under what it was until then.
#include <boost/describe/class.hpp>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "wire/api_reconcile.hpp"

namespace tranche::engine {

struct State;
struct Device;
struct Lease;
struct BookedWindow;

struct DeviceDayKey {
  Instant day{};
  DeviceId device{};
  auto operator<=>(const DeviceDayKey&) const = default;
};
BOOST_DESCRIBE_STRUCT(DeviceDayKey, (), (day, device))

// Times microseconds. Memory is split, because bytes times microseconds of a day do not fit into 64 bits.
struct CapacityTime {
  std::int64_t milli = 0;
  std::int64_t mebibytes = 0;
  std::int64_t bytes = 0;  // The rest below a mebibyte.
};
BOOST_DESCRIBE_STRUCT(CapacityTime, (), (milli, mebibytes, bytes))

struct DeviceDayUse {
  DeviceDayKey key{};
  Instant from{}, to{};
  std::vector<CapacityTime> classes{};  // By wire::CapacityClass.
  CapacityTime had{};
  std::vector<std::int64_t> busy{};  // By class: nanoseconds that the device worked, as meters told.
};
BOOST_DESCRIBE_STRUCT(DeviceDayUse, (), (key, from, to, classes, had, busy))

constexpr Duration kDeviceDaysKept = std::chrono::hours(24 * 35);

// Counts up to `at`; to be called before anything of the device changes.
void tally(State&, DeviceId device, Instant at);
void tally(State&, const Lease&, Instant at);                      // All of its devices.
void tally(State&, const std::vector<BookedWindow>&, Instant at);  // All that they claim.

// Device time that a meter told of a lease: by the days it fell on, over the devices that the lease has.
void note_busy(State&, LeaseId, Instant from, Instant to, std::int64_t nanoseconds);

// The days from `from` until before `to`, with what has passed until now.
[[nodiscard]] std::vector<DeviceDayUse> device_days(const State&, const Device&, Instant from, Instant to);
[[nodiscard]] wire::DeviceDay view_of(const State&, const DeviceDayUse&);

}  // namespace tranche::engine
