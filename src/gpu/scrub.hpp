// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory zeroed and read back between two tenants of a device.
#include <cstdint>

#include "gpu/device_session.hpp"
#include "wire/receipt.hpp"

namespace tranche::gpu {

struct ScrubOutcome {
  Bytes zeroed{};
  Bytes verified{};
  std::int64_t nonzero_bytes = 0;  // After zeroing: anything but zero is a failed scrub.
  Duration took{};                 // With finding the free memory.
  Duration zeroing{};
  Duration reading{};
};

// Of so many bytes that a tenant had (0: the whole device), how many to wipe. The memory of a CPU device is
// its machine's: it went back with the tenant's processes, and the kernel zeroes a page before anybody else
// gets it. There a part proves that wiping works; all of it would be taken from the machine for nothing.
std::int64_t enough_to_wipe(const OpenClDevice& device, std::int64_t bytes);
// For the receipt: why that is less than all, where it is.
std::string_view why_a_part(const OpenClDevice& device, std::int64_t bytes);
// All free memory of the device, or `budget` bytes of it. Throws CannotRun when it could not be done.
ScrubOutcome zero_and_verify(const OpenClDevice& device, std::int64_t budget = 0);
// The same on memory that the caller took, which is how one slice of a shared device is wiped.
ScrubOutcome zero_and_verify(DeviceSession& session, const std::vector<DeviceBuffer>& memory);
// The numbers of a receipt; who and what for is the caller's.
wire::ScrubReceipt receipt_of(const ScrubOutcome& outcome);
// Bytes zeroed and read back in a second.
std::int64_t bytes_per_second(const ScrubOutcome& outcome);

}  // namespace tranche::gpu
