// SPDX-License-Identifier: Apache-2.0
#pragma once
// The time of day, for the edges of the system. The engine reads no clock: it is told.
#include "base/time.hpp"

namespace tranche {

inline Instant wall_clock() {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

}  // namespace tranche
