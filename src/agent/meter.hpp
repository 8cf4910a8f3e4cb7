// SPDX-License-Identifier: Apache-2.0
#pragma once
// From counters that only grow to records that follow each other: one record's end is the next one's
// beginning, whatever happens to the agent in between. Pure; where it stands is on the lease's page.
#include <cstdint>
#include <vector>

#include "agent/lease_page.hpp"
#include "base/bytes.hpp"
#include "base/time.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

struct DeviceReading {
  std::uint64_t device_nanoseconds = 0;  // Since the lease began.
  std::uint64_t copied_bytes = 0;        // The same.
  Bytes vram{};                          // In use now.
  std::int64_t milliwatts = 0;           // The slice's part, now.
};

// A record for each slice from where the last ended (at first: `began`) to `now`; nothing when no time has
// passed. Moves the page on.
[[nodiscard]] std::vector<wire::MeterRecord> take_meter(LeasePage& page,
                                                        const wire::LeaseGrant& grant,
                                                        Instant began,
                                                        Instant now,
                                                        const std::vector<DeviceReading>& readings);

}  // namespace tranche::agent
