// SPDX-License-Identifier: Apache-2.0
#pragma once
// The hours of the day in which a job may start, and what becomes of it when they are over.
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "wire/zone_offset.hpp"

namespace tranche::wire {

enum class WindowEnd : std::uint8_t {
  kFinish,  // What has started goes on to its end.
  kStop,    // It is told to save its work, and goes on in the next window.
};
BOOST_DESCRIBE_ENUM(WindowEnd, kFinish, kStop)

struct StartWindow {
  std::uint32_t from_minute = 0, to_minute = 0;  // Of the local day; from > to runs over midnight.
  std::string zone{};                            // IANA name, as the person wrote it.
  WindowEnd at_end = WindowEnd::kFinish;
  std::vector<ZoneOffset> offsets{};  // Of the zone; the first is in force at submission.
  bool operator==(const StartWindow&) const = default;
};
BOOST_DESCRIBE_STRUCT(StartWindow, (), (from_minute, to_minute, zone, at_end, offsets))
[[nodiscard]] std::string text(const StartWindow&);  // 22:00-06:00 Europe/Madrid

}  // namespace tranche::wire
