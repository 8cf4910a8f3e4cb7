// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_report.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/check.hpp"
#include "sim/pack_churn.hpp"
#include "sim/pack_consolidate.hpp"

namespace tranche::sim {
namespace {

struct Summary {
  double mean = 0;
  double deviation = 0;
  double at_end = 0;
  double dropped = 0;
  double moves = 0;
  LatencyCount latency;
  std::uint64_t offered = 0;
};

Summary summarise(const std::vector<PackRun>& runs) {
  Summary out;
  const auto count = static_cast<double>(runs.size());
  for (const PackRun& run : runs) {
    out.mean += run.allocation_at_100 / count;
    out.at_end += run.allocation_at_end / count;
    out.dropped += static_cast<double>(run.dropped) / count;
    out.moves += static_cast<double>(run.moves) / count;
    out.latency.merge(run.latency);
    out.offered += run.offered;
  }
  for (const PackRun& run : runs) out.deviation += std::pow(run.allocation_at_100 - out.mean, 2);
  out.deviation = runs.size() > 1 ? std::sqrt(out.deviation / (count - 1)) : 0;
  return out;
}

std::string decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class Get>
std::string json_list(const std::vector<PackRun>& runs, const Get& get) {
  std::string out = "[";
  for (const PackRun& run : runs) out += (out.size() > 1 ? ", " : "") + get(run);
  return out + "]";
}

double per_second(const Summary& sum) {
  return sum.latency.total_seconds() > 0
             ? static_cast<double>(sum.latency.count()) / sum.latency.total_seconds()
             : 0;
}

}  // namespace

std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_seeds(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto number = [](std::string_view digits) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last || *last < *first || *last - *first > 9999) return std::nullopt;
  return std::pair{*first, *last};
}

PackReport run_trial(const PackTrial& trial, const PackHooks& hooks) {
  ModelNames models;
  PackNodes nodes = read_nodes(trial.nodes_path, models);
  PackTasks tasks = read_tasks(trial.tasks_path, models);
  PackTasks drift;
  if (!trial.drift_path.empty()) drift = read_tasks(trial.drift_path, models);
  if (trial.replicate > 1) {
    nodes = replicated(nodes, trial.replicate);
    tasks = replicated(tasks, trial.replicate);
  }
  const auto policy = parse_pack_policy(trial.policy);
  TRANCHE_CHECK(policy.has_value());
  PackReport report{
      trial, nodes.nodes.size(), nodes.capacity_milli, tasks.tasks.size(), tasks.kinds.size(), {}};
  for (std::uint64_t seed = trial.first_seed; seed <= trial.last_seed; ++seed) {
    PackOptions options;
    options.policy = *policy;
    options.seed = seed;
    options.ratio = trial.ratio;
    options.nanoseconds = hooks.nanoseconds;
    if (hooks.watch) options.watch = [&](const PackDecision& decision) { hooks.watch(seed, decision); };
    if (hooks.progress) {
      options.progress = [&](std::uint64_t done, std::uint64_t of) {
        hooks.progress("seed " + std::to_string(seed) + ": " + std::to_string(done) + " of " +
                       std::to_string(of));
      };
    }
    if (trial.churn > 0) {
      const ChurnOptions churn{trial.churn, trial.arrivals, trial.drift_path.empty() ? nullptr : &drift};
      report.runs.push_back(run_churn(nodes, tasks, options, churn));
    } else if (trial.consolidate) {
      report.runs.push_back(run_consolidated(nodes, tasks, options));
    } else {
      options.drift = trial.drift_path.empty() ? nullptr : &drift;
      report.runs.push_back(run_pack(nodes, tasks, options));
    }
  }
  return report;
}

std::string report_json(const PackReport& report) {
  const Summary sum = summarise(report.runs);
  const PackTrial& trial = report.trial;
  std::string out = "{\n";
  const auto field = [&](const char* name, const std::string& value) {
    out += std::string(out.size() > 2 ? ",\n" : "") + "  \"" + name + "\": " + value;
  };
  field("policy", quoted(trial.policy));
  field("nodes_file", quoted(trial.nodes_path));
  field("tasks_file", quoted(trial.tasks_path));
  if (!trial.drift_path.empty()) field("drift_file", quoted(trial.drift_path));
  field("nodes", std::to_string(report.nodes));
  field("devices", std::to_string(report.capacity_milli / policy::kDeviceMilli));
  field("tasks", std::to_string(report.tasks));
  field("kinds", std::to_string(report.kinds));
  field("mode", trial.churn > 0 ? "\"churn\"" : (trial.consolidate ? "\"consolidated\"" : "\"one-pass\""));
  if (trial.churn > 0) field("load", decimal(trial.churn, 3));
  if (trial.churn <= 0) field("ratio", decimal(trial.ratio, 3));
  field("seeds", json_list(report.runs, [](const PackRun& run) { return std::to_string(run.seed); }));
  field("allocation_percent_mean", decimal(sum.mean, 4));
  field("allocation_percent_stddev", decimal(sum.deviation, 4));
  field("allocation_percent_per_seed",
        json_list(report.runs, [](const PackRun& run) { return decimal(run.allocation_at_100, 4); }));
  field("allocation_percent_at_end_mean", decimal(sum.at_end, 4));
  field("allocation_percent_at_end_per_seed",
        json_list(report.runs, [](const PackRun& run) { return decimal(run.allocation_at_end, 4); }));
  field(
      "unallocated_devices_mean",
      decimal((100 - sum.mean) / 100 * static_cast<double>(report.capacity_milli) / policy::kDeviceMilli, 2));
  field("offered", std::to_string(sum.offered));
  field("dropped_mean", decimal(sum.dropped, 1));
  field("moves_mean", decimal(sum.moves, 1));
  field("moves_per_seed",
        json_list(report.runs, [](const PackRun& run) { return std::to_string(run.moves); }));
  field("decisions_per_second", decimal(per_second(sum), 0));
  field("decision_microseconds_p50", decimal(sum.latency.quantile_microseconds(0.5), 1));
  field("decision_microseconds_p99", decimal(sum.latency.quantile_microseconds(0.99), 1));
  return out + "\n}\n";
}

std::string report_text(const PackReport& report) {
  const Summary sum = summarise(report.runs);
  const PackTrial& trial = report.trial;
  std::string out = "policy " + trial.policy + " on " + std::to_string(report.nodes) + " nodes, " +
                    std::to_string(report.capacity_milli / policy::kDeviceMilli) + " GPUs, " +
                    std::to_string(report.tasks) + " tasks of " + std::to_string(report.kinds) + " kinds\n";
  const bool one_pass = trial.churn <= 0;
  out += one_pass ? "seed  alloc % at 100 %  at end   dropped   moves\n"
                  : "seed  alloc % (2nd half)       dropped   moves\n";
  for (const PackRun& run : report.runs) {
    char line[128];
    std::snprintf(line,
                  sizeof line,
                  "%-5llu %15.2f  %6s  %8llu  %6llu\n",
                  static_cast<unsigned long long>(run.seed),
                  run.allocation_at_100,
                  one_pass ? decimal(run.allocation_at_end, 2).c_str() : "",
                  static_cast<unsigned long long>(run.dropped),
                  static_cast<unsigned long long>(run.moves));
    out += line;
  }
  out += "mean  " + decimal(sum.mean, 2) + " % allocated (sd " + decimal(sum.deviation, 2) + ")";
  if (one_pass) out += ", " + decimal(sum.at_end, 2) + " % at the end";
  out += "; " + decimal(per_second(sum), 0) + " decisions/s, p99 " +
         decimal(sum.latency.quantile_microseconds(0.99), 0) + " us\n";
  return out;
}

}  // namespace tranche::sim
