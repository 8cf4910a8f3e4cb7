// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a replay is fed: jobs with their times and sizes, and the pools (virtual clusters) they belong to.
//
// Jobs: submit, duration (seconds), gpus, vc. Pools: vc, nodes, and optionally gpus_per_node (8 unless told).
#include <cstdint>
#include <string>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::sim {

using policy::GroupIndex;
using policy::JobIndex;
using policy::Seconds;

struct TraceJob {
  Seconds submit = 0;
  Seconds duration = 0;
  std::int32_t gpus = 0;
  GroupIndex pool = 0;
};

struct TracePool {
  std::string name;
  std::int32_t nodes = 0;
};

struct ReplayTrace {
  std::vector<TraceJob> jobs;  // In the order of submission.
  std::vector<TracePool> pools;
  std::int32_t gpus_per_node = 8;
  std::int64_t without_pool = 0;    // Jobs of pools that the pools file does not name: left out.
  std::int64_t without_gpus = 0;    // Jobs that ask for no device: left out.
  std::int64_t outside_window = 0;  // Jobs submitted before `from` or after `to`: left out.
  [[nodiscard]] std::int32_t nodes() const;
  [[nodiscard]] std::int32_t gpus() const { return nodes() * gpus_per_node; }
};

struct TraceSource {
  std::string jobs_path;
  std::string pools_path;
  std::int32_t shrink = 1;  // Nodes of every pool are divided by this, one at least.
  Seconds from = 0;         // Submissions kept: from <= submit <= to.
  Seconds to = 999'999'999'999;
};

// Throws CsvError with file and line for anything that cannot be used as it is.
ReplayTrace read_trace(const TraceSource& source);

}  // namespace tranche::sim
