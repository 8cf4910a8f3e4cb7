// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time of day, for the edges of the system. The engine reads no clock: it is told.
#include "base/time.hpp"

namespace tranche {

inline Instant wall_clock() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

// The same, but never before what somebody has seen already. Who may look at something is judged by this: the
// engine's own time stands still while nothing happens.
inline Instant clock_at_least(Instant seen) {
  const Instant now = wall_clock();
  return now < seen ? seen : now;
}

}  // namespace tranche
