// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one lease used on one device between two instants, in whole numbers. Records of a lease follow each
// other without gap or overlap, so that parts add up to the whole.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace tranche::wire {

struct MeterRecord {
  LeaseId lease{};
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;  // Of the lease, from 1: the same record twice counts once.
  DeviceId device{};
  Instant from{};
  Instant to{};
  std::int64_t device_nanoseconds = 0;  // Busy on the device.
  std::int64_t vram_byte_seconds = 0;
  std::int64_t energy_millijoules = 0;
  std::int64_t copied_bytes = 0;  // Between host and device.
  std::int64_t network_bytes = 0;
  std::map<std::string, std::int64_t> units{};  // tokens, steps, frames, video_milliseconds
  bool operator==(const MeterRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(MeterRecord,
                      (),
                      (lease,
                       epoch,
                       sequence,
                       device,
                       from,
                       to,
                       device_nanoseconds,
                       vram_byte_seconds,
                       energy_millijoules,
                       copied_bytes,
                       network_bytes,
                       units))

}  // namespace tranche::wire
