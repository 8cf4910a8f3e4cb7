// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packing with departures: tasks drawn with replacement arrive at random times, stay for exponentially
// distributed lives, and are dropped when they fit nowhere at that moment. The offered load is a multiple of
// the fleet; half-way the mix may turn into that of another trace.
#include <cstdint>

#include "sim/pack_run.hpp"

namespace tranche::sim {

struct ChurnOptions {
  double load = 1.2;  // Mean requested compute in flight, were nothing dropped, over capacity.
  std::uint64_t arrivals = 30000;
  const PackTasks* drift = nullptr;  // The mix of the second half.
};

// allocation_at_100 is the mean over the second half of the arrivals, when the fleet is full;
// allocation_curve is by percent of the arrivals. A policy with foreknowledge is told the mix of both halves
// together.
PackRun run_churn(const PackNodes& nodes,
                  const PackTasks& tasks,
                  const PackOptions& options,
                  const ChurnOptions& churn);

}  // namespace tranche::sim
