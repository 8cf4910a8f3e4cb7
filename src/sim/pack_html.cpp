// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_html.hpp"

#include <algorithm>

#include "sim/html_page.hpp"

namespace tranche::sim {
namespace {

// The mean of all seeds, where any of them has a value.
HtmlLine mean_curve(const PackReport& report) {
  HtmlLine line{.name = report.trial.policy};
  std::size_t longest = 0;
  for (const PackRun& run : report.runs) longest = std::max(longest, run.allocation_curve.size());
  for (std::size_t percent = 0; percent < longest; ++percent) {
    double sum = 0;
    int count = 0;
    for (const PackRun& run : report.runs) {
      if (percent >= run.allocation_curve.size() || run.allocation_curve[percent] < 0) continue;
      sum += run.allocation_curve[percent];
      ++count;
    }
    if (count > 0) line.points.emplace_back(static_cast<double>(percent), sum / count);
  }
  return line;
}

}  // namespace

std::string pack_html(const PackReport& report) {
  const PackTrial& trial = report.trial;
  const bool churn = trial.churn > 0;
  const double devices = static_cast<double>(report.capacity_milli) / policy::kDeviceMilli;
  HtmlPage page("Packing: " + trial.policy,
                std::to_string(report.tasks) + " tasks of " + std::to_string(report.kinds) + " kinds on " +
                    std::to_string(report.nodes) + " nodes with " + html_number(devices) + " GPUs.");
  double mean = 0, dropped = 0, moves = 0;
  for (const PackRun& run : report.runs) {
    const auto count = static_cast<double>(report.runs.size());
    mean += run.allocation_at_100 / count;
    dropped += static_cast<double>(run.dropped) / count;
    moves += static_cast<double>(run.moves) / count;
  }
  page.figures({{churn ? "Allocated in the second half, mean" : "Allocated when 100 % is requested, mean",
                 html_number(mean, 2) + " %"},
                {"GPUs that nobody could be given then", html_number((100 - mean) / 100 * devices, 1)},
                {"Their cost: GPU-hours a day", html_number((100 - mean) / 100 * devices * 24)},
                {"Tasks dropped, mean", html_number(dropped, 1)},
                {"Moves, mean", html_number(moves, 1)}});
  page.heading("Utilisation",
               churn ? "Allocated compute as tasks come and go." : "Allocated compute by what is requested.");
  page.lines("Allocation",
             {mean_curve(report)},
             {.x = churn ? "% of the arrivals" : "% of the fleet requested", .y = "%"});
  std::vector<HtmlBar> seeds;
  for (const PackRun& run : report.runs)
    seeds.push_back(
        {.name = "seed " + std::to_string(run.seed),
         .value = run.allocation_at_100,
         .words = html_number(run.allocation_at_100, 2) + " %, " + std::to_string(run.dropped) + " dropped"});
  page.heading("By order of arrival");
  page.bars("Allocation by seed", seeds, Axis::kLinear);
  return page.text();
}

}  // namespace tranche::sim
