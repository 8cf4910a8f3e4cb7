// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much does a context take on this device? Found out by making one in a process of our own, before a
// tenant with a limit so small that its first context might not fit is let in.
#include <cstdint>

namespace tranche::guard {

inline constexpr std::uint64_t kSmallLimit = 1ULL << 30;  // No context of any driver is that large.

// Asks `tranche guard context-size`, once for each device in the life of this process. Zero: nobody knows (no
// CUDA driver, one that tells no sizes, or this program is not tranche).
std::uint32_t context_mib_of(std::uint32_t device);
// Makes a context on the device with the driver of this machine, and says what that took; zero: it did not
// work.
std::uint64_t measure_context(int device);

}  // namespace tranche::guard
