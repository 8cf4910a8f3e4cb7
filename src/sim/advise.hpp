// SPDX-License-Identifier: Apache-2.0
#pragma once
// Advice drawn from what-ifs: devices that are under-used, a smaller fleet that would have served the same
// work as well, what sharing saves, how devices would be cut into hardware partitions, and who asks for more
// than he uses. Each piece of advice carries the run that shows it.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/whatif.hpp"

namespace tranche::sim {

struct Advice {
  std::string what{};      // In one sentence.
  std::string evidence{};  // The run that shows it, in one sentence.
  double saves_device_hours_a_day = 0;
  std::vector<std::string> devices{};              // That it is about.
  std::map<std::string, std::uint32_t> layouts{};  // Of hardware partitions, and on how many devices.
};

struct AdviceReport {
  WhatIfReport now{};
  std::vector<Advice> advice{};
};

// `slack`: a wait may grow by so many seconds at P95 before a fleet counts as too small.
[[nodiscard]] AdviceReport advise(const WhatIfWorld& world, std::int64_t slack_seconds);
[[nodiscard]] std::string advice_json(const AdviceReport& report);

}  // namespace tranche::sim
