// SPDX-License-Identifier: Apache-2.0
#pragma once
// Start-time forecasts during a replay: every job that must wait is told a P50 and a P90 at submission, by
// running copies of the cluster ahead; the outcome is compared when it starts.
#include "sim/replay_lending.hpp"

namespace tranche::sim {

struct ForecastReport {
  std::int64_t forecasts = 0;
  double started_by_p90_percent = 0;
  double worst_day_percent = 100;   // Days with at least 50 answers.
  double median_error_seconds = 0;  // |P50 - really|.
  double mean_milliseconds = 0;
  double p99_milliseconds = 0;
};

struct ForecastOptions {
  policy::LendingRules rules{};
  std::int32_t runs = 20;
  std::uint64_t seed = 1;
  Seconds look_ahead = 30 * 86400;
  std::int32_t events_max = 4000;  // Per run: an answer is bounded in work, not in time.
  std::function<void(Seconds)> progress{};
  std::function<double()> milliseconds{};  // A clock from the caller; without it times stay zero.
};

struct ForecastRun {
  ReplayRun run;
  ForecastReport report;
};

std::string forecast_json(const ForecastReport& report);

ForecastRun replay_with_forecasts(const ReplayTrace& trace, const ForecastOptions& options);

}  // namespace tranche::sim
