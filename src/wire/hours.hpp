// SPDX-License-Identifier: Apache-2.0
#pragma once
// A daily span of local time, as rules and price lists name it.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "wire/zone_offset.hpp"

namespace tranche::wire {

enum class Weekday : std::uint8_t { kMon, kTue, kWed, kThu, kFri, kSat, kSun };
BOOST_DESCRIBE_ENUM(Weekday, kMon, kTue, kWed, kThu, kFri, kSat, kSun)

struct Hours {                  // From > to runs over midnight.
  std::string from{}, to{};     // "22:00"
  std::string zone{};           // IANA name, as the person wrote it.
  std::vector<Weekday> days{};  // Of the day on which the span begins; empty: every day.
  bool operator==(const Hours&) const = default;
};
BOOST_DESCRIBE_STRUCT(Hours, (), (from, to, zone, days))

// Offsets by the name of their zone, resolved at the edge when the hours were written.
using Zones = std::map<std::string, std::vector<ZoneOffset>>;

}  // namespace tranche::wire
