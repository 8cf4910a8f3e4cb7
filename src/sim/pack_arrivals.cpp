// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_arrivals.hpp"

#include <numeric>
#include <utility>

namespace tranche::sim {
namespace {

void shuffle(std::vector<std::uint32_t>& items, Random& random) {
  for (std::size_t left = items.size(); left > 1; --left)
    std::swap(items[left - 1], items[random.below(left)]);
}

// The protocol spends a draw even when there is one choice.
std::uint64_t draw_below(Random& random, std::uint64_t bound) {
  if (bound == 1) random.next();
  return random.below(bound);
}

}  // namespace

Arrivals draw_arrivals(const PackNodes& nodes, const PackTasks& tasks, std::uint64_t seed, double ratio) {
  Arrivals out;
  out.random = Random(seed);
  out.kinds = tasks.tasks;
  shuffle(out.kinds, out.random);
  std::int64_t requested = 0;
  for (const std::uint32_t kind : out.kinds) requested += tasks.kinds[kind].gpu_milli();
  const double target = ratio * static_cast<double>(nodes.capacity_milli);
  while (static_cast<double>(requested) > target && !out.kinds.empty()) {
    const std::size_t victim = draw_below(out.random, out.kinds.size());
    requested -= tasks.kinds[out.kinds[victim]].gpu_milli();
    out.kinds.erase(out.kinds.begin() + static_cast<std::ptrdiff_t>(victim));
  }
  for (;;) {
    const std::uint32_t kind = tasks.tasks[draw_below(out.random, tasks.tasks.size())];
    const policy::Shape& shape = tasks.kinds[kind];
    // As published, the check counts one device of the task, whatever it asks for in all.
    if (static_cast<double>(requested + shape.milli) > target) break;
    requested += shape.gpu_milli();
    out.kinds.push_back(kind);
  }
  out.node_order.resize(nodes.nodes.size());
  std::iota(out.node_order.begin(), out.node_order.end(), 0U);
  shuffle(out.node_order, out.random);
  return out;
}

Arrivals draw_drifting_arrivals(const PackNodes& nodes,
                                const PackTasks& first,
                                const PackTasks& second,
                                const std::vector<std::uint32_t>& second_kinds,
                                std::uint64_t seed,
                                double ratio) {
  Arrivals out = draw_arrivals(nodes, first, seed, ratio);
  const Arrivals later = draw_arrivals(nodes, second, seed, ratio);
  const double half = ratio * static_cast<double>(nodes.capacity_milli) / 2;
  std::int64_t requested = 0;
  std::size_t kept = 0;
  while (kept < out.kinds.size() && static_cast<double>(requested) < half)
    requested += first.kinds[out.kinds[kept++]].gpu_milli();
  out.kinds.resize(kept);
  for (const std::uint32_t kind : later.kinds) {
    if (static_cast<double>(requested) >= 2 * half) break;
    requested += second.kinds[kind].gpu_milli();
    out.kinds.push_back(second_kinds[kind]);
  }
  return out;
}

}  // namespace tranche::sim
