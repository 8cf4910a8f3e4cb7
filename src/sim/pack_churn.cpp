// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_churn.hpp"

#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

namespace tranche::sim {
namespace {

struct Departure {
  double at = 0;
  std::uint64_t arrival = 0;  // Breaks ties.
  policy::KindIndex kind = 0;
  policy::Placement placement;
  bool operator>(const Departure& other) const {
    return at != other.at ? at > other.at : arrival > other.arrival;
  }
};

double exponential(Random& random, double mean) {
  const double uniform = (static_cast<double>(random.next() >> 11U) + 0.5) * 0x1.0p-53;
  return -mean * std::log(uniform);
}

double mean_milli(const PackTasks& tasks) {
  double sum = 0;
  for (const std::uint32_t kind : tasks.tasks) sum += static_cast<double>(tasks.kinds[kind].gpu_milli());
  return sum / static_cast<double>(tasks.tasks.size());
}

}  // namespace

PackRun run_churn(const PackNodes& nodes,
                  const PackTasks& tasks,
                  const PackOptions& options,
                  const ChurnOptions& churn) {
  std::vector<std::uint32_t> drift_kinds;
  const PackTasks all = churn.drift != nullptr ? merged(tasks, *churn.drift, drift_kinds) : tasks;
  Arrivals order;
  order.random = Random(options.seed);
  order.node_order.resize(nodes.nodes.size());
  std::iota(order.node_order.begin(), order.node_order.end(), 0U);
  for (std::size_t left = order.node_order.size(); left > 1; --left)
    std::swap(order.node_order[left - 1], order.node_order[order.random.below(left)]);
  Random draws(order.random.next());
  const auto placer = make_placer(nodes, all, order, options);

  const auto capacity = static_cast<double>(nodes.capacity_milli);
  const double first_milli = mean_milli(tasks);
  const double drift_milli = churn.drift != nullptr ? mean_milli(*churn.drift) : first_milli;
  PackRun run;
  run.seed = options.seed;
  std::priority_queue<Departure, std::vector<Departure>, std::greater<>> departures;
  double now = 0;
  double sum = 0;
  std::uint64_t noted = 0;
  std::vector<double> by_percent(100), counted(100);
  for (std::uint64_t arrival = 0; arrival < churn.arrivals; ++arrival) {
    const bool second_half = arrival * 2 >= churn.arrivals;
    const bool drifted = second_half && churn.drift != nullptr;
    const PackTasks& source = drifted ? *churn.drift : tasks;
    now += exponential(draws, (drifted ? drift_milli : first_milli) / (churn.load * capacity));
    while (!departures.empty() && departures.top().at <= now) {
      placer->release(departures.top().kind, departures.top().placement);
      departures.pop();
    }
    std::uint32_t kind = source.tasks[draws.below(source.tasks.size())];
    if (drifted) kind = drift_kinds[kind];
    const double life = exponential(draws, 1.0);
    ++run.offered;
    const std::int64_t before = options.nanoseconds ? options.nanoseconds() : 0;
    const auto placement = placer->place(kind);
    if (options.nanoseconds) run.latency.add(options.nanoseconds() - before);
    placement ? departures.push({now + life, arrival, kind, *placement}) : static_cast<void>(++run.dropped);
    by_percent[arrival * 100 / churn.arrivals] += static_cast<double>(placer->fleet().allocated_milli());
    ++counted[arrival * 100 / churn.arrivals];
    if (second_half) {
      sum += static_cast<double>(placer->fleet().allocated_milli());
      ++noted;
    }
    if (options.progress && run.offered % 1024 == 0) options.progress(run.offered, churn.arrivals);
  }
  for (std::size_t percent = 0; percent < by_percent.size(); ++percent)
    run.allocation_curve.push_back(
        counted[percent] > 0 ? 100 * by_percent[percent] / (counted[percent] * capacity) : -1);
  run.allocation_at_100 = 100 * sum / (static_cast<double>(noted) * capacity);
  run.allocation_at_end = run.allocation_at_100;
  run.unallocated_milli_at_end = nodes.capacity_milli - placer->fleet().allocated_milli();
  return run;
}

}  // namespace tranche::sim
