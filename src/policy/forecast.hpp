// SPDX-License-Identifier: Apache-2.0
#pragma once
// When will a waiting job start: a P50 and a P90 from several runs ahead, and how far past answers were off.
//
// Runs ahead draw durations; jobs of one kind share part of their luck, because batches of similar jobs end
// together. The P90 is then scaled by how late past jobs really were (conformal, over the newest answers).
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

struct StartForecast {
  Seconds p50 = 0;  // Seconds from now.
  Seconds p90 = 0;
};

// Middle and upper waits of the runs ahead.
StartForecast forecast_from_runs(std::vector<Seconds> waits);

// A share in [0, 1) for one draw, in thousandths of the kind's history: in odd runs all jobs of a kind share
// it, in even runs each job has its own.
double draw_quantile(
    std::uint64_t seed, std::int32_t run, std::int32_t runs, std::int32_t kind, std::int32_t job);

// Sliding record of answers and outcomes of one group.
class ForecastRecord {
 public:
  explicit ForecastRecord(std::size_t limit = 400) : limit_(limit) {}
  void resolve(StartForecast said, Seconds really);
  // Factor for the next P90: the 90 % quantile of (really + 60) / (P90 + 60), with those still waiting beyond
  // their P90 counted at what they have waited so far.
  [[nodiscard]] double scale(const std::vector<double>& overdue) const;
  [[nodiscard]] std::size_t size() const { return ratios_.size(); }

 private:
  std::size_t limit_ = 0;
  std::deque<double> ratios_;
};

constexpr Seconds kForecastSlack = 60;  // Keeps ratios of short waits finite.
double lateness_ratio(Seconds p90, Seconds really);
StartForecast scaled(StartForecast forecast, double factor);

}  // namespace tranche::policy
