// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tasks arrive in which order, and in which order nodes break ties: the FGD evaluation protocol.
//
// Seeded by SplitMix64 alone, so that another simulator with the same protocol sees the same arrivals.
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "sim/pack_trace.hpp"

namespace tranche::sim {

struct Arrivals {
  std::vector<std::uint32_t> kinds;       // In order of arrival.
  std::vector<std::uint32_t> node_order;  // Positions in PackNodes::nodes; the first wins ties.
  Random random{0};                       // As the drawing left it.
};

// Shuffles the tasks, then adds tasks drawn with replacement until the next would pass `ratio` x capacity of
// requested compute (or thins a trace that asks for more), then shuffles the nodes.
Arrivals draw_arrivals(const PackNodes& nodes, const PackTasks& tasks, std::uint64_t seed, double ratio);

// The first half of the requested compute as drawn from `first`, the rest as drawn from `second`. Kinds are
// numbered as merged() numbers them.
Arrivals draw_drifting_arrivals(const PackNodes& nodes,
                                const PackTasks& first,
                                const PackTasks& second,
                                const std::vector<std::uint32_t>& second_kinds,
                                std::uint64_t seed,
                                double ratio);

}  // namespace tranche::sim
