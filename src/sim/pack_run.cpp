// SPDX-License-Identifier: Apache-2.0
#include "sim/pack_run.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace tranche::sim {
namespace {

constexpr std::array<std::pair<std::string_view, PackPolicy>, 7> kPolicyNames{{
    {"default", PackPolicy::kDefault},
    {"fgd", PackPolicy::kFgd},
    {"bestfit", PackPolicy::kBestFit},
    {"packing", PackPolicy::kPacking},
    {"clustering", PackPolicy::kClustering},
    {"dotprod", PackPolicy::kDotProduct},
    {"random", PackPolicy::kRandom},
}};

std::unique_ptr<policy::PlacementPolicy> make_policy(const policy::Fleet& fleet,
                                                     const PackTasks& tasks,
                                                     const Arrivals& arrivals,
                                                     const PackOptions& options) {
  switch (options.policy) {
    case PackPolicy::kDefault:
      return policy::make_value_policy(fleet, options.value);
    case PackPolicy::kFgd:
      return policy::make_scan_policy(fleet, policy::make_fragmentation_scorer(fleet, tasks.demand()));
    case PackPolicy::kBestFit:
      return policy::make_scan_policy(fleet, policy::make_best_fit_scorer(fleet));
    case PackPolicy::kPacking:
      return policy::make_scan_policy(fleet, policy::make_packing_scorer(fleet));
    case PackPolicy::kClustering:
      return policy::make_scan_policy(fleet, policy::make_clustering_scorer(fleet));
    case PackPolicy::kDotProduct:
      return policy::make_scan_policy(fleet, policy::make_dot_product_scorer(fleet));
    case PackPolicy::kRandom:
      return policy::make_random_policy(fleet, arrivals.random);
  }
  TRANCHE_CHECK(false);
  return nullptr;
}

}  // namespace

std::optional<PackPolicy> parse_pack_policy(std::string_view name) {
  for (const auto& [known, policy] : kPolicyNames)
    if (known == name) return policy;
  return std::nullopt;
}

std::string_view pack_policy_names() {
  return "default, fgd, bestfit, packing, clustering, dotprod, random";
}

void LatencyCount::add(std::int64_t nanoseconds) {
  const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(nanoseconds, 16));
  const auto exponent = static_cast<std::uint64_t>(std::bit_width(value)) - 5;
  ++buckets_[std::min<std::uint64_t>(exponent * 16 + ((value >> exponent) & 15U), buckets_.size() - 1)];
  ++count_;
  total_ += nanoseconds;
}

double LatencyCount::quantile_microseconds(double q) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(q * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= wanted && seen > 0)
      return std::ldexp(static_cast<double>(16 + i % 16 + 1), static_cast<int>(i / 16)) * 1e-3;
  }
  return 0;
}

void LatencyCount::merge(const LatencyCount& other) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  total_ += other.total_;
}

void AllocationCurve::note(std::int64_t arrived_milli, std::int64_t allocated_milli) {
  const auto bin =
      static_cast<std::size_t>(std::nearbyint(100.0 * static_cast<double>(arrived_milli) / capacity_));
  if (bin >= sums_.size()) {
    sums_.resize(bin + 1, 0.0);
    counts_.resize(bin + 1, 0);
  }
  sums_[bin] += 100.0 * static_cast<double>(allocated_milli) / capacity_;
  ++counts_[bin];
}

std::vector<double> AllocationCurve::means() const {
  std::vector<double> out(sums_.size(), -1);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (counts_[i] > 0) out[i] = sums_[i] / static_cast<double>(counts_[i]);
  return out;
}

double allocation_at(const std::vector<double>& curve, std::size_t percent) {
  std::size_t bin = std::min(percent + 1, curve.size());
  while (bin > 0 && curve[bin - 1] < 0) --bin;
  return bin > 0 ? curve[bin - 1] : 0;
}

std::unique_ptr<policy::Placer> make_placer(const PackNodes& nodes,
                                            const PackTasks& tasks,
                                            const Arrivals& arrivals,
                                            const PackOptions& options) {
  policy::Fleet fleet;
  for (const std::uint32_t position : arrivals.node_order) fleet.add_node(nodes.nodes[position].spec);
  auto placer = std::make_unique<policy::Placer>(std::move(fleet));
  for (const policy::Shape& shape : tasks.kinds) placer->kind(shape);
  placer->use(make_policy(placer->fleet(), tasks, arrivals, options));
  return placer;
}

PackRun run_pack(const PackNodes& nodes, const PackTasks& tasks, const PackOptions& options) {
  if (options.drift != nullptr) {
    std::vector<std::uint32_t> second_kinds;
    const PackTasks all = merged(tasks, *options.drift, second_kinds);
    return run_arrivals(
        nodes,
        all,
        draw_drifting_arrivals(nodes, tasks, *options.drift, second_kinds, options.seed, options.ratio),
        options);
  }
  return run_arrivals(nodes, tasks, draw_arrivals(nodes, tasks, options.seed, options.ratio), options);
}

PackRun run_arrivals(const PackNodes& nodes,
                     const PackTasks& tasks,
                     const Arrivals& arrivals,
                     const PackOptions& options) {
  const auto placer = make_placer(nodes, tasks, arrivals, options);
  PackRun run;
  run.seed = options.seed;
  AllocationCurve curve(nodes.capacity_milli);
  std::int64_t arrived = 0;
  for (const std::uint32_t kind : arrivals.kinds) {
    const policy::Shape& shape = placer->shape(kind);
    arrived += shape.gpu_milli();
    ++run.offered;
    const std::int64_t before = options.nanoseconds ? options.nanoseconds() : 0;
    const auto placement = placer->place(kind);
    if (options.nanoseconds) run.latency.add(options.nanoseconds() - before);
    if (!placement) ++run.dropped;
    curve.note(arrived, placer->fleet().allocated_milli());
    if (options.watch) {
      PackDecision decision{run.offered, &shape, nullptr, -1};
      if (placement) decision.node = &nodes.nodes[arrivals.node_order[placement->node]].name;
      if (placement && shape.shares()) decision.device = std::countr_zero(placement->devices);
      options.watch(decision);
    }
    if (options.progress && run.offered % 1024 == 0) options.progress(run.offered, arrivals.kinds.size());
  }
  run.allocation_curve = curve.means();
  run.allocation_at_100 = allocation_at(run.allocation_curve, 100);
  run.allocation_at_end = run.allocation_curve.back();
  run.unallocated_milli_at_end = nodes.capacity_milli - placer->fleet().allocated_milli();
  return run;
}

}  // namespace tranche::sim
