// SPDX-License-Identifier: Apache-2.0
#include "agent/meter.hpp"

#include <algorithm>

namespace tranche::agent {
namespace {

// What a counter grew by; one that is smaller than before was begun anew.
std::int64_t growth(LeasePage::Word64& last, std::uint64_t now) {
  const std::uint64_t before = last.exchange(now);
  return static_cast<std::int64_t>(now >= before ? now - before : now);
}

}  // namespace

std::vector<wire::MeterRecord> take_meter(LeasePage& page,
                                          const wire::LeaseGrant& grant,
                                          Instant began,
                                          Instant now,
                                          const std::vector<DeviceReading>& readings) {
  std::vector<wire::MeterRecord> records;
  const std::uint64_t last = page.metered_until.load();
  const Instant from = last == 0 ? began : Instant(Duration(static_cast<std::int64_t>(last)));
  if (now <= from) return records;  // The wall clock stood still or was set back: the next record has it all.
  const std::int64_t microseconds = (now - from).count();
  for (std::size_t i = 0; i < grant.slices.size() && i < kMeteredDevices && i < readings.size(); ++i) {
    const DeviceReading& reading = readings[i];
    wire::MeterRecord record{.lease = grant.lease, .epoch = grant.epoch, .device = grant.slices[i].device};
    record.sequence = page.meter_sequence.fetch_add(1) + 1;
    record.from = from;
    record.to = now;
    record.device_nanoseconds = growth(page.metered_ns[i], reading.device_nanoseconds);
    record.copied_bytes = growth(page.metered_copies[i], reading.copied_bytes);
    // In parts that do not overflow: bytes of a device times seconds fit, times microseconds do not.
    const std::int64_t mebibytes = reading.vram.count >> 20;
    record.vram_byte_seconds = mebibytes * microseconds / 1'000'000 * (std::int64_t{1} << 20);
    // Of the whole job, and so on one record of it alone.
    if (i == 0) record.network_bytes = growth(page.metered_network, page.network_bytes);
    record.energy_millijoules = reading.milliwatts * (microseconds / 1000) / 1000;
    records.push_back(std::move(record));
  }
  page.metered_until = static_cast<std::uint64_t>(now.time_since_epoch().count());
  return records;
}

}  // namespace tranche::agent
