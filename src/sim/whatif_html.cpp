// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif_html.hpp"

#include "sim/html_page.hpp"

namespace tranche::sim {
namespace {

std::string seconds_text(double seconds) {
  return html_number(seconds) + " s";
}

void add_table(HtmlPage& page, const WhatIfRuns& runs) {
  std::vector<std::vector<std::string>> rows{{"",
                                              "devices busy",
                                              "devices held",
                                              "mean wait",
                                              "p95",
                                              "longest",
                                              "fairness",
                                              "fleet hours per hour of work",
                                              "preempted",
                                              "refused",
                                              "unfinished"}};
  for (const auto& [options, report] : runs)
    rows.push_back({run_name(options),
                    html_number(report.busy_percent, 1) + " %",
                    html_number(report.held_percent, 1) + " %",
                    seconds_text(report.waits.mean_seconds),
                    seconds_text(static_cast<double>(report.waits.p95_seconds)),
                    seconds_text(static_cast<double>(report.waits.max_seconds)),
                    html_number(report.fairness_index, 2),
                    html_number(report.fleet_hours_per_work_hour, 2),
                    std::to_string(report.preemptions),
                    std::to_string(report.refused),
                    std::to_string(report.unfinished)});
  page.table(rows);
}

void add_utilisation(HtmlPage& page, const WhatIfRuns& runs) {
  std::vector<HtmlLine> lines;
  for (const auto& [options, report] : runs) {
    HtmlLine busy{.name = run_name(options)};
    for (std::size_t hour = 0; hour < report.busy_by_hour.size(); ++hour)
      busy.points.emplace_back(static_cast<double>(hour), report.busy_by_hour[hour]);
    lines.push_back(std::move(busy));
  }
  page.heading("Utilisation", "Devices really at work, hour by hour.");
  page.lines("Devices at work over time", lines, {.x = "hours", .y = "%"});
}

void add_waits(HtmlPage& page, const WhatIfRuns& runs) {
  page.heading("Waits", "Mean (dark) and p95 (light) by kind of work, logarithmic.");
  std::vector<HtmlBar> bars;
  for (const auto& [options, report] : runs)
    for (const auto& [kind, waits] : report.by_kind)
      bars.push_back({.name = kind + (runs.size() > 1 ? ", " + run_name(options) : ""),
                      .value = waits.mean_seconds,
                      .beyond = static_cast<double>(waits.p95_seconds),
                      .words = seconds_text(waits.mean_seconds) + ", p95 " +
                               seconds_text(static_cast<double>(waits.p95_seconds))});
  page.bars("Mean and p95 wait by kind", bars, Axis::kLogSeconds);
}

void add_fairness(HtmlPage& page, const WhatIfRuns& runs) {
  page.heading("Fairness", "How much longer than its run the work of each tenant took, on average.");
  std::vector<HtmlBar> bars;
  for (const auto& [options, report] : runs)
    for (const auto& [name, tenant] : report.by_tenant)
      bars.push_back({.name = name + (runs.size() > 1 ? ", " + run_name(options) : ""),
                      .value = tenant.mean_slowdown,
                      .words = html_number(tenant.mean_slowdown, 2) + " times"});
  page.bars("Mean slowdown by tenant", bars, Axis::kLinear);
}

void add_cost(HtmlPage& page, const WhatIfRuns& runs) {
  page.heading("Cost", "Hours of the fleet for one hour of work.");
  std::vector<HtmlBar> bars;
  for (const auto& [options, report] : runs) {
    std::string words = html_number(report.fleet_hours_per_work_hour, 2) + " h";
    if (options.device_hour > 0)
      words +=
          ", " + html_number(report.fleet_hours_per_work_hour * options.device_hour, 2) + " an hour of work";
    bars.push_back({.name = run_name(options), .value = report.fleet_hours_per_work_hour, .words = words});
  }
  page.bars("Fleet hours per hour of work", bars, Axis::kLinear);
}

}  // namespace

std::string run_name(const WhatIfOptions& options) {
  std::string name(sharing_name(options.sharing));
  if (options.prepare_percent > 0) name += ", forecast " + std::to_string(options.prepare_percent) + " %";
  return name;
}

std::string whatif_html(const WhatIfRuns& runs) {
  const WhatIfReport& first = runs.front().second;
  HtmlPage page("What if",
                std::to_string(first.jobs) + " jobs on " + std::to_string(first.devices) +
                    " devices, submitted over " +
                    html_number(static_cast<double>(first.window_seconds) / 3600.0, 1) + " hours.");
  add_table(page, runs);
  add_utilisation(page, runs);
  add_waits(page, runs);
  add_fairness(page, runs);
  add_cost(page, runs);
  return page.text();
}

}  // namespace tranche::sim
