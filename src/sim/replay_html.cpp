// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_html.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tranche::sim {
namespace {

constexpr double kWidth = 640, kLeft = 130;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

// Waits span many orders of magnitude: one decade is one equal step.
double log_position(double seconds) {
  return std::log10(std::max(seconds, 1.0)) / 7.0;
}

std::string text_at(double x, double y, const std::string& words, const char* anchor = "start") {
  return "<text x='" + number(x) + "' y='" + number(y) + "' text-anchor='" + anchor + "'>" + escaped(words) +
         "</text>";
}

std::string pool_chart(const ReplayReport& report) {
  const double height = 24 * static_cast<double>(report.by_pool.size()) + 10;
  std::string svg = "<svg role='img' aria-label='Mean and p95 wait by pool' viewBox='0 0 " +
                    number(kLeft + kWidth + 120) + " " + number(height) + "'>";
  double y = 6;
  for (const PoolReport& pool : report.by_pool) {
    const double mean = log_position(pool.mean_wait_seconds) * kWidth;
    const double p95 = log_position(static_cast<double>(pool.p95_wait_seconds)) * kWidth;
    svg += text_at(kLeft - 8, y + 13, pool.pool, "end");
    svg += "<rect class='p95' x='" + number(kLeft) + "' y='" + number(y) + "' height='16' width='" +
           number(p95) + "'/>";
    svg += "<rect class='mean' x='" + number(kLeft) + "' y='" + number(y + 4) + "' height='8' width='" +
           number(mean) + "'/>";
    svg +=
        text_at(kLeft + std::max(mean, p95) + 6,
                y + 13,
                number(pool.mean_wait_seconds) + " s, p95 " + std::to_string(pool.p95_wait_seconds) + " s");
    y += 24;
  }
  return svg + "</svg>";
}

// Share of jobs that waited at most so long.
std::string spread_chart(const ReplayRun& run) {
  std::vector<Seconds> waits;
  for (const JobOutcome& outcome : run.outcomes) {
    if (outcome.end >= 0) waits.push_back(outcome.wait);
  }
  std::sort(waits.begin(), waits.end());
  std::string points;
  for (int step = 0; step <= 200 && !waits.empty(); ++step) {
    const double q = step / 200.0;
    const double x = kLeft + log_position(static_cast<double>(quantile_of_sorted(waits, q))) * kWidth;
    points += number(x) + "," + number(210 - 200 * q) + " ";
  }
  std::string svg = "<svg role='img' aria-label='Share of jobs by wait' viewBox='0 0 900 240'>";
  for (int decade = 0; decade <= 7; ++decade) {
    const double x = kLeft + kWidth * decade / 7.0;
    svg += "<line x1='" + number(x) + "' x2='" + number(x) + "' y1='10' y2='210'/>";
    svg += text_at(x, 228, decade == 0 ? "1 s" : "1e" + std::to_string(decade) + " s", "middle");
  }
  svg += text_at(kLeft - 8, 18, "100 % of jobs", "end") + text_at(kLeft - 8, 210, "0 %", "end");
  return svg + "<polyline points='" + points + "'/></svg>";
}

std::string figure(const std::string& name, const std::string& value) {
  return "<tr><th>" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>";
}

}  // namespace

std::string replay_html(const ReplayTrace& trace,
                        const ReplayRun& run,
                        const ReplayReport& report,
                        ReplayMode mode) {
  std::string page =
      "<!doctype html><html lang='en'><meta charset='utf-8'><title>Replay (simulated)</title><style>"
      "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
      "svg{width:100%;font-size:12px}.p95{fill:#b8cbe6}.mean{fill:#2456a6}line{stroke:#ddd}"
      "polyline{fill:none;stroke:#2456a6;stroke-width:2}th{text-align:left;padding-right:2em;font-weight:500}"
      "td{text-align:right}.sim{background:#fff3cd;padding:.4em .8em;display:inline-block}</style>";
  page += "<h1>Replay: " + std::string(replay_mode_name(mode)) +
          "</h1><p class='sim'>Simulated: " + std::to_string(report.jobs) + " jobs of a trace on " +
          std::to_string(report.gpus) + " GPUs in " + std::to_string(trace.pools.size()) +
          " pools. Nothing ran.</p><table>";
  page += figure("Mean wait", number(report.mean_wait_seconds) + " s");
  page += figure("p95 wait", std::to_string(report.p95_wait_seconds) + " s");
  page += figure("Longest wait", std::to_string(report.max_wait_seconds) + " s");
  page += figure("Devices allocated", number(report.allocation_percent) + " %");
  page += figure("Jobs never able to run", std::to_string(report.never_able_to_run));
  page += figure("Preemptions", std::to_string(report.preemptions));
  page += figure("Lost GPU-hours", number(report.lost_gpu_hours));
  page += figure("Starts under a guarantee later than 60 s", std::to_string(report.late_entitled_starts));
  page +=
      "</table><h2>Wait by pool</h2><p>Mean (dark) and p95 (light), logarithmic.</p>" + pool_chart(report);
  page += "<h2>How waits are spread</h2>" + spread_chart(run) + "</html>\n";
  return page;
}

}  // namespace tranche::sim
