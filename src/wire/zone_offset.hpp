// SPDX-License-Identifier: Apache-2.0
#pragma once
// What of a time zone goes into a decision: its offsets, resolved at the edge, so that a new time zone
// database changes no old decision.
#include <boost/describe/class.hpp>
#include <cstdint>

#include "base/time.hpp"

namespace tranche::wire {

struct ZoneOffset {  // From this instant on, local time is UTC plus so many seconds.
  Instant from{};
  std::int32_t seconds = 0;
  bool operator==(const ZoneOffset&) const = default;
};
BOOST_DESCRIBE_STRUCT(ZoneOffset, (), (from, seconds))

}  // namespace tranche::wire
