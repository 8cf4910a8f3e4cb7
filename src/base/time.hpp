// SPDX-License-Identifier: Apache-2.0
#pragma once
// Engine time. Instant counts microseconds since 1970-01-01T00:00:00Z; only the shell reads a clock.
#include <chrono>

namespace tranche {

using Duration = std::chrono::microseconds;
using Instant = std::chrono::sys_time<Duration>;

}  // namespace tranche
