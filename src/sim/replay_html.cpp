// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_html.hpp"

#include <algorithm>

#include "sim/html_page.hpp"

namespace tranche::sim {
namespace {

std::string seconds_text(double seconds) {
  return html_number(seconds) + " s";
}

void add_figures(HtmlPage& page, const ReplayReport& report) {
  page.figures(
      {{"Devices allocated", html_number(report.allocation_percent, 1) + " %"},
       {"Mean wait", seconds_text(report.mean_wait_seconds)},
       {"p95 wait", seconds_text(static_cast<double>(report.p95_wait_seconds))},
       {"Longest wait", seconds_text(static_cast<double>(report.max_wait_seconds))},
       {"Fairness of mean waits between pools (1: all alike)", html_number(report.fairness_index, 2)},
       {"GPU-hours held", html_number(report.held_gpu_hours)},
       {"Of them lost to restarts", html_number(report.lost_gpu_hours, 1)},
       {"Jobs never able to run", std::to_string(report.never_able_to_run)},
       {"Preemptions", std::to_string(report.preemptions)},
       {"Starts under a guarantee later than 60 s", std::to_string(report.late_entitled_starts)}});
}

void add_utilisation(HtmlPage& page, const ReplayRun& run, const ReplayReport& report) {
  HtmlLine held{.name = "allocated"};
  for (std::size_t hour = 0; hour < run.held_by_hour.size(); ++hour)
    held.points.emplace_back(
        static_cast<double>(hour) / 24.0,
        100.0 * static_cast<double>(run.held_by_hour[hour]) / 3600.0 / std::max<double>(report.gpus, 1));
  page.heading("Utilisation", "Share of the devices that were given to somebody, hour by hour.");
  page.lines("Devices allocated over time", {held}, {.x = "days", .y = "%"});
}

void add_waits(HtmlPage& page, const ReplayRun& run, const ReplayReport& report) {
  std::vector<HtmlBar> pools;
  for (const PoolReport& pool : report.by_pool)
    pools.push_back({.name = pool.pool,
                     .value = pool.mean_wait_seconds,
                     .beyond = static_cast<double>(pool.p95_wait_seconds),
                     .words = seconds_text(pool.mean_wait_seconds) + ", p95 " +
                              seconds_text(static_cast<double>(pool.p95_wait_seconds))});
  page.heading("Wait by pool", "Mean (dark) and p95 (light), logarithmic.");
  page.bars("Mean and p95 wait by pool", pools, Axis::kLogSeconds);
  std::vector<Seconds> waits;
  for (const JobOutcome& outcome : run.outcomes)
    if (outcome.end >= 0) waits.push_back(outcome.wait);
  std::sort(waits.begin(), waits.end());
  HtmlLine spread{.name = "jobs"};
  for (int step = 0; step <= 200 && !waits.empty(); ++step)
    spread.points.emplace_back(static_cast<double>(quantile_of_sorted(waits, step / 200.0)), step / 2.0);
  page.heading("How waits are spread", "Share of jobs that waited at most so long.");
  page.lines("Share of jobs by wait", {spread}, {.x = "wait", .y = "% of jobs", .x_axis = Axis::kLogSeconds});
}

void add_cost(HtmlPage& page, const ReplayReport& report) {
  std::vector<HtmlBar> bars;
  for (const PoolReport& pool : report.by_pool)
    bars.push_back({.name = pool.pool,
                    .value = pool.held_gpu_hours,
                    .words = html_number(pool.held_gpu_hours) + " GPU-hours of " +
                             html_number(pool.guaranteed_gpu_hours) + " guaranteed"});
  page.heading("Fairness and cost", "GPU-hours that each pool had, beside what was guaranteed to it.");
  page.bars("GPU-hours by pool", bars, Axis::kLinear);
}

}  // namespace

std::string replay_html(const ReplayTrace& trace,
                        const ReplayRun& run,
                        const ReplayReport& report,
                        ReplayMode mode) {
  HtmlPage page("Replay: " + std::string(replay_mode_name(mode)),
                std::to_string(report.jobs) + " jobs of a trace on " + std::to_string(report.gpus) +
                    " GPUs in " + std::to_string(trace.pools.size()) + " pools.");
  add_figures(page, report);
  add_utilisation(page, run, report);
  add_waits(page, run, report);
  add_cost(page, report);
  return page.text();
}

}  // namespace tranche::sim
