// SPDX-License-Identifier: Apache-2.0
#pragma once
// A packing trial over several seeds: what was asked, what came out, as a table for people or JSON for
// scripts.
#include <optional>
#include <string>
#include <vector>

#include "sim/pack_run.hpp"

namespace tranche::sim {

struct PackTrial {
  std::string nodes_path;
  std::string tasks_path;
  std::string drift_path;  // Empty: the mix stays.
  std::string policy = "default";
  std::uint64_t first_seed = 42;
  std::uint64_t last_seed = 51;
  double ratio = 1.3;
  bool consolidate = false;
  double churn = 0;  // Offered load with departures; 0 = nothing departs.
  std::uint64_t arrivals = 30000;
  int replicate = 1;  // Fleet and tasks so many times over.
};

struct PackReport {
  PackTrial trial;
  std::size_t nodes = 0;
  std::int64_t capacity_milli = 0;
  std::size_t tasks = 0;
  std::size_t kinds = 0;
  std::vector<PackRun> runs;
};

// "42-51" or "42"; nullopt when it is neither.
std::optional<std::pair<std::uint64_t, std::uint64_t>> parse_seeds(std::string_view text);

struct PackHooks {
  std::function<std::int64_t()> nanoseconds;
  std::function<void(const std::string& line)> progress;
  std::function<void(std::uint64_t seed, const PackDecision&)> watch;
};

// Throws TraceError for files it cannot use.
PackReport run_trial(const PackTrial& trial, const PackHooks& hooks);

std::string report_json(const PackReport& report);
std::string report_text(const PackReport& report);

}  // namespace tranche::sim
