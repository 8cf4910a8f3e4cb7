// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says about the demand to come.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "wire/fields.hpp"
#include "wire/workload.hpp"

namespace tranche::wire {

struct ClassDemand {
  std::string party{};  // Path of the tenant.
  WorkloadKind kind{};
  std::uint8_t priority = 0;
  std::int64_t gpu_milli = 0;
};
BOOST_DESCRIBE_STRUCT(ClassDemand, (), (party, kind, priority, gpu_milli))

struct UnitDemand {
  std::string party{};  // Path of the tenant.
  std::string unit{};   // frames, seconds, steps, requests, tokens_in, tokens_out
  std::int64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(UnitDemand, (), (party, unit, count))

struct HourDemand {
  Instant from{};
  std::int64_t gpu_milli = 0;  // Of all that may be seen, on average over the hour.
  std::vector<ClassDemand> classes{};
  std::vector<UnitDemand> units{};  // In the whole hour.
};
BOOST_DESCRIBE_STRUCT(HourDemand, (), (from, gpu_milli, classes, units))

struct DemandView {
  std::int64_t capacity_gpu_milli = 0;   // That takes work now, or does when it is wiped.
  std::int64_t simulated_gpu_milli = 0;  // Likewise, of simulated devices.
  std::uint32_t prepare_percent = 0;     // As set for the platform; zero: the forecast is shown, not used.
  std::vector<HourDemand> hours{};
};
BOOST_DESCRIBE_STRUCT(DemandView, (), (capacity_gpu_milli, simulated_gpu_milli, prepare_percent, hours))

}  // namespace tranche::wire
