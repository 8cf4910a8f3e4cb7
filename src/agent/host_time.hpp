// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two clocks of a node: CLOCK_BOOTTIME for leases and limits (it goes on while the machine sleeps and no
// administrator sets it), the wall clock for what people read.
#include <chrono>
#include <cstdint>
#include <time.h>

#include "base/time.hpp"
#include "base/wall_clock.hpp"

namespace tranche::agent {

// Nanoseconds since boot.
using BootTime = std::uint64_t;

inline BootTime boot_time() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<BootTime>(now.tv_sec) * 1'000'000'000U + static_cast<BootTime>(now.tv_nsec);
}
inline Instant wall_time() {
  return wall_clock();
}
constexpr BootTime nanoseconds(Duration length) {
  return length.count() <= 0 ? 0 : static_cast<BootTime>(length.count()) * 1000U;
}

}  // namespace tranche::agent
