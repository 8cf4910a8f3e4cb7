// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the API says about the demand to come.
#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.hpp"
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

// Hardware partitions that devices are kept ready for.
struct PlannedPartitionView {
  DeviceId device{};
  std::string node{};
  std::string profile{};
  std::uint8_t start = 0;     // Memory slice.
  std::uint8_t priority = 0;  // Of the work that is expected.
};
BOOST_DESCRIBE_STRUCT(PlannedPartitionView, (), (device, node, profile, start, priority))

struct LayoutView {
  Instant until{};
  std::uint32_t prepare_percent = 0;
  std::vector<PlannedPartitionView> partitions{};
};
BOOST_DESCRIBE_STRUCT(LayoutView, (), (until, prepare_percent, partitions))

// How start times that were told came true.
struct ToldStart {
  JobId job{};  // Zero: somebody else's.
  Instant started{};
  Duration told_p50{};  // From when it was told.
  Duration told_p90{};
  Duration waited{};  // Really, from then.
};
BOOST_DESCRIBE_STRUCT(ToldStart, (), (job, started, told_p50, told_p90, waited))

struct ForecastAccuracy {
  std::uint32_t predictions = 0;           // Whose jobs have started: the last 400 at most.
  std::uint32_t open = 0;                  // Whose jobs still wait.
  std::optional<Duration> error_median{};  // Of the P50, either way.
  std::optional<std::uint32_t> started_by_p90_permille{};
  std::vector<ToldStart> recent{};  // The last ones, newest first.
};
BOOST_DESCRIBE_STRUCT(ForecastAccuracy,
                      (),
                      (predictions, open, error_median, started_by_p90_permille, recent))

}  // namespace tranche::wire
