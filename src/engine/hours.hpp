// SPDX-License-Identifier: Apache-2.0
#pragma once
// Daily spans of local time: whether an instant is inside one, and when that changes.
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "wire/hours.hpp"

namespace tranche::engine {

using wire::Hours;
using wire::Weekday;
using wire::ZoneOffset;
using wire::Zones;

// Seconds that local time is ahead of UTC then.
[[nodiscard]] std::int64_t offset_seconds(const std::vector<ZoneOffset>& offsets, Instant at);

[[nodiscard]] bool within(const Hours&, const Zones&, Instant at);
// An instant after `at` until which within() says the same; it may say the same after it, too.
[[nodiscard]] Instant next_change(const Hours&, const Zones&, Instant at);
// For the person who wrote them; empty: they make sense.
[[nodiscard]] std::string hours_problem(const Hours&, const Zones&);

}  // namespace tranche::engine
