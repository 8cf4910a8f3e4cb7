// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where every second of a device went. The classes are disjoint, and their sums are what the device had.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche::wire {

enum class CapacityClass : std::uint8_t {
  kOwn,         // Leased by whose capacity it is.
  kLent,        // Leased by others, without a contract.
  kSold,        // Under a contract of the exchange: paid, whether its buyer ran something in it or not.
  kHeldUnused,  // Booked or being prepared: granted, and nothing ran.
  kScrub,       // Wiped between two leases.
  kHealth,      // Tested, watched, drained or reset.
  kMaintenance,
  kOutOfService,  // Quarantined, in repair, lost, not there yet.
  kStranded,      // Free, and of a kind that cannot be given out: the other dimension is taken.
  kIdle,
};
BOOST_DESCRIBE_ENUM(CapacityClass,
                    kOwn,
                    kLent,
                    kSold,
                    kHeldUnused,
                    kScrub,
                    kHealth,
                    kMaintenance,
                    kOutOfService,
                    kStranded,
                    kIdle)

struct ClassSum {
  CapacityClass what = CapacityClass::kIdle;
  std::int64_t compute_milli_microseconds = 0;
  std::string vram_byte_microseconds{};  // Too large for a number of 64 bits.
  std::int64_t busy_nanoseconds = 0;     // Of the compute: what meters saw in use.
};
BOOST_DESCRIBE_STRUCT(ClassSum,
                      (),
                      (what, compute_milli_microseconds, vram_byte_microseconds, busy_nanoseconds))

struct DeviceDay {
  DeviceId device{};
  std::string node{};
  std::string model{};
  bool simulated = false;
  Instant day{};
  Instant from{}, to{};  // Of the day: as long as the device was known, and until now.
  std::vector<ClassSum> classes{};
  std::int64_t compute_milli_microseconds = 0;  // What it had.
  std::string vram_byte_microseconds{};
  bool exact = false;  // Both sums over the classes are what it had.
};
BOOST_DESCRIBE_STRUCT(DeviceDay,
                      (),
                      (device,
                       node,
                       model,
                       simulated,
                       day,
                       from,
                       to,
                       classes,
                       compute_milli_microseconds,
                       vram_byte_microseconds,
                       exact))

struct Reconciliation {
  std::vector<DeviceDay> items{};
  std::uint64_t inexact = 0;
};
BOOST_DESCRIBE_STRUCT(Reconciliation, (), (items, inexact))

}  // namespace tranche::wire
