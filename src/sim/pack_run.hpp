// SPDX-License-Identifier: Apache-2.0
#pragma once
// One-pass packing by the FGD evaluation protocol: offer every arrival once to an empty fleet, nothing
// leaves.
//
// The figure of merit is the allocation, in % of all compute, averaged over the arrivals at which the
// requested compute rounds to 100 % (and to 130 %) of the fleet.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/placement_placer.hpp"
#include "policy/placement_value.hpp"
#include "sim/pack_arrivals.hpp"
#include "sim/pack_trace.hpp"

namespace tranche::sim {

enum class PackPolicy { kDefault, kFgd, kBestFit, kPacking, kClustering, kDotProduct, kRandom };
std::optional<PackPolicy> parse_pack_policy(std::string_view name);
std::string_view pack_policy_names();  // "default, fgd, …"

// One decision, for those who want to watch: node is null when the task was dropped.
struct PackDecision {
  std::uint64_t arrival = 0;  // From 1.
  const policy::Shape* shape = nullptr;
  const std::string* node = nullptr;
  int device = -1;  // Of a share; -1 for whole devices or none.
};

struct PackOptions {
  PackPolicy policy = PackPolicy::kDefault;
  std::uint64_t seed = 42;
  double ratio = 1.3;
  policy::ValueOptions value;                 // Of the default policy.
  const PackTasks* drift = nullptr;           // The mix of the second half of what is requested.
  std::function<std::int64_t()> nanoseconds;  // A clock, if decisions are to be timed.
  std::function<void(const PackDecision&)> watch;
  std::function<void(std::uint64_t done, std::uint64_t of)> progress;
};

// Latencies of decisions in buckets of 1/16 of a power of two.
class LatencyCount {
 public:
  void add(std::int64_t nanoseconds);
  [[nodiscard]] double quantile_microseconds(double q) const;
  [[nodiscard]] double total_seconds() const { return static_cast<double>(total_) * 1e-9; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  void merge(const LatencyCount& other);

 private:
  std::vector<std::uint64_t> buckets_ = std::vector<std::uint64_t>(1024, 0);
  std::uint64_t count_ = 0;
  std::int64_t total_ = 0;
};

struct PackRun {
  std::uint64_t seed = 0;
  double allocation_at_100 = 0;
  double allocation_at_end = 0;  // In the last whole-percent bin of requested compute (130 by default).
  std::int64_t unallocated_milli_at_end = 0;
  std::vector<double>
      allocation_curve;  // By whole percent of requested compute; negative where none arrived.
  std::uint64_t offered = 0;
  std::uint64_t dropped = 0;
  std::uint64_t moves = 0;  // Of running tasks, by consolidation.
  LatencyCount latency;
};

// Means over arrivals, by whole percent of requested compute.
class AllocationCurve {
 public:
  explicit AllocationCurve(std::int64_t capacity_milli) : capacity_(static_cast<double>(capacity_milli)) {}
  void note(std::int64_t arrived_milli, std::int64_t allocated_milli);
  [[nodiscard]] std::vector<double> means() const;

 private:
  double capacity_ = 0;
  std::vector<double> sums_;
  std::vector<std::uint64_t> counts_;
};

// The mean at this percent of requested compute, or at the last percent before it at which anything arrived.
double allocation_at(const std::vector<double>& curve, std::size_t percent);

// Nodes in tie order with the policy that chooses, kinds registered by their index in `tasks`.
std::unique_ptr<policy::Placer> make_placer(const PackNodes& nodes,
                                            const PackTasks& tasks,
                                            const Arrivals& arrivals,
                                            const PackOptions& options);

PackRun run_arrivals(const PackNodes& nodes,
                     const PackTasks& tasks,
                     const Arrivals& arrivals,
                     const PackOptions& options);
PackRun run_pack(const PackNodes& nodes, const PackTasks& tasks, const PackOptions& options);

}  // namespace tranche::sim
