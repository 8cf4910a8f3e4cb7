// SPDX-License-Identifier: Apache-2.0
// What lending is worth on the Philly trace, and how good the start times told to waiting jobs are.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "bench/bench.hpp"
#include "sim/replay.hpp"
#include "sim/replay_forecast.hpp"

namespace tranche::bench {
namespace {

std::filesystem::path philly() {
  const char* given = std::getenv("TRANCHE_TRACES");  // NOLINT(concurrency-mt-unsafe): one thread here.
  return std::filesystem::path(given != nullptr ? given : "../shared/data/traces") / "philly";
}

bool traces_are_here() {
  if (std::filesystem::exists(philly() / "philly_vcs.csv")) return true;
  std::fprintf(stderr, "no trace in %s; set TRANCHE_TRACES\n", philly().c_str());
  return false;
}

sim::ReplayTrace trace_of(const std::string& pools, std::int32_t shrink) {
  return sim::read_trace({philly() / "philly_jobs_to_october.csv.gz", philly() / pools, shrink});
}

sim::ReplayReport report_of(const sim::ReplayTrace& trace, sim::ReplayMode mode) {
  sim::ReplayOptions options;
  options.mode = mode;
  return sim::summarise(trace, sim::replay(trace, options));
}

// The worst pool against its own walls: 1 is the promise exactly kept.
double worst_pool(const sim::ReplayReport& lending, const sim::ReplayReport& walls) {
  double worst = 0;
  for (std::size_t i = 0; i < walls.by_pool.size(); ++i) {
    const sim::PoolReport& now = lending.by_pool[i];
    const sim::PoolReport& then = walls.by_pool[i];
    worst = std::max(worst, now.mean_wait_seconds / (1.01 * then.mean_wait_seconds + 60));
    worst = std::max(
        worst,
        static_cast<double>(now.p95_wait_seconds) / (1.01 * static_cast<double>(then.p95_wait_seconds) + 60));
  }
  return worst;
}

void add_size(std::int32_t shrink, const std::string& peer, std::vector<Row>& rows) {
  const sim::ReplayTrace trace = trace_of("philly_vcs.csv", shrink);
  const sim::ReplayReport walls = report_of(trace, sim::ReplayMode::kWalls);
  const sim::ReplayReport pool = report_of(trace, sim::ReplayMode::kPool);
  const sim::ReplayReport lending = report_of(trace, sim::ReplayMode::kLending);
  const std::string at = "K=" + std::to_string(shrink) + " ";
  const auto low = Better::kLower;
  rows.push_back({at + "walls, mean wait", walls.mean_wait_seconds, "s", 0, low, "", PeerSource::kNone});
  rows.push_back({at + "one pool, mean wait", pool.mean_wait_seconds, "s", 0, low, "", PeerSource::kNone});
  rows.push_back({at + "lending, mean wait",
                  lending.mean_wait_seconds,
                  "s",
                  pool.mean_wait_seconds,
                  low,
                  peer,
                  PeerSource::kQuoted});
  rows.push_back({at + "entitled starts within 60 s",
                  100.0 * (1.0 - static_cast<double>(lending.late_entitled_starts) /
                                     static_cast<double>(std::max<std::int64_t>(1, lending.entitled_jobs))),
                  "%",
                  100,
                  Better::kHigher,
                  "",
                  PeerSource::kNone});
  rows.push_back(
      {at + "worst pool against its walls", worst_pool(lending, walls), "x", 1, low, "", PeerSource::kNone});
  rows.push_back({at + "lost work", lending.lost_percent, "%", 0.5, low, "", PeerSource::kNone});
}

std::vector<Row> run_replay() {
  std::vector<Row> rows;
  if (!traces_are_here()) return rows;
  add_size(3, "trial 48 s", rows);
  add_size(4, "trial 669 s", rows);
  add_size(6, "trial 33,232 s", rows);
  const double walls =
      report_of(trace_of("philly_vcs_1168gpus.csv", 1), sim::ReplayMode::kWalls).mean_wait_seconds;
  const double half =
      report_of(trace_of("philly_vcs_584gpus.csv", 1), sim::ReplayMode::kLending).mean_wait_seconds;
  rows.push_back(
      {"1,168 GPUs behind walls, mean wait", walls, "s", 0, Better::kLower, "", PeerSource::kNone});
  rows.push_back({"584 GPUs with lending, mean wait",
                  half,
                  "s",
                  walls,
                  Better::kLower,
                  "trial 4,795 s",
                  PeerSource::kQuoted});
  return rows;
}

// Processor time: how busy the rest of the machine is has no place in the figure.
double cpu_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::vector<Row> run_forecast() {
  std::vector<Row> rows;
  if (!traces_are_here()) return rows;
  sim::ForecastOptions options;
  options.milliseconds = cpu_milliseconds;
  const sim::ForecastReport report =
      sim::replay_with_forecasts(trace_of("philly_vcs.csv", 4), options).report;
  rows.push_back({"started by their P90 (at most 97)",
                  report.started_by_p90_percent,
                  "%",
                  85,
                  Better::kHigher,
                  "trial 90.2 %",
                  PeerSource::kQuoted});
  rows.push_back({"median error of the P50",
                  report.median_error_seconds,
                  "s",
                  400,
                  Better::kLower,
                  "trial 416 s",
                  PeerSource::kQuoted});
  rows.push_back({"processor time per forecast",
                  report.mean_milliseconds,
                  "ms",
                  40,
                  Better::kLower,
                  "",
                  PeerSource::kNone});
  return rows;
}

}  // namespace

Suite replay_suite() {
  return {"replay", "waits on the Philly trace: walls, one pool, lending", run_replay};
}

Suite forecast_suite() {
  return {"forecast", "start times told to waiting jobs, Philly K=4 with lending", run_forecast};
}

}  // namespace tranche::bench
