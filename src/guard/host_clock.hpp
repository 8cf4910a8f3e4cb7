// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time and sleep as the guard needs them: CLOCK_MONOTONIC in nanoseconds, and futexes on shared memory.
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard/region.hpp"

namespace tranche::guard {

inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// Sleeps while `word` holds `seen`, at most `for_ns`. Works on a read-only mapping of a shared file.
inline void futex_wait(const Word32& word, std::uint32_t seen, std::uint64_t for_ns) {
  const timespec timeout{static_cast<time_t>(for_ns / 1'000'000'000U),
                         static_cast<long>(for_ns % 1'000'000'000U)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

inline void futex_wake_all(Word32& word) {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tranche::guard
