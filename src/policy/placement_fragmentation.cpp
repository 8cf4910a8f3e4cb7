// SPDX-License-Identifier: Apache-2.0
// Fragmentation gradient descent (Weng et al., USENIX ATC'23): the placement after which least idle compute
// is out of reach of a typical job. It is told the mix in advance; it is the yardstick, not our default.
//
// Scores are rounded to whole numbers 0..100 as published. The rounding matters: it makes ties, and ties in a
// fixed node order consolidate. Sums run in a fixed order so that no rounding differs between builds.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

struct TypicalKind {
  std::int64_t cpu_milli = 0;
  int devices = 0;
  int milli = 0;
  ModelSet models = 0;
  double weight = 0;
};

// What a node looks like to the fragmentation sum.
struct Remainder {
  std::int64_t cpu_left = 0;
  int count = 0;
  std::array<int, kDevicesMax> milli{};
};

constexpr double kTypicalCoverage = 0.95;

std::vector<TypicalKind> typical_kinds(const std::vector<Demand>& workload) {
  using Key = std::tuple<std::int64_t, int, int, ModelSet>;  // cpu, milli, devices, models; not memory
  std::map<Key, std::int64_t> counts;
  std::int64_t total = 0;
  for (const Demand& demand : workload) {
    const Shape& shape = demand.shape;
    counts[{shape.cpu_milli, shape.milli, shape.devices, shape.models}] += demand.count;
    total += demand.count;
  }
  std::vector<std::pair<std::int64_t, Key>> by_count;
  by_count.reserve(counts.size());
  for (const auto& [key, count] : counts) by_count.emplace_back(count, key);
  std::sort(by_count.begin(), by_count.end(), std::greater<>());
  std::vector<TypicalKind> typical;
  double covered = 0;
  for (const auto& [count, key] : by_count) {
    if (covered >= kTypicalCoverage * static_cast<double>(total)) break;
    covered += static_cast<double>(count);
    const auto& [cpu, milli, devices, models] = key;
    typical.push_back({cpu, devices, milli, models, static_cast<double>(count)});
  }
  for (TypicalKind& kind : typical) kind.weight /= covered;
  return typical;
}

class FragmentationScorer final : public NodeScorer {
 public:
  FragmentationScorer(const Fleet& fleet, const std::vector<Demand>& workload)
      : fleet_(fleet), typical_(typical_kinds(workload)) {
    for (NodeIndex node = 0; node < fleet.node_count(); ++node) node_changed(node);
  }

  void node_changed(NodeIndex node) override {
    fragment_.resize(fleet_.node_count());
    fragment_[node] = fragment(fleet_.spec(node).model, remainder(fleet_.node(node)));
  }

  [[nodiscard]] NodeScore score(NodeIndex node, const Shape& shape) const override {
    const NodeState& state = fleet_.node(node);
    Remainder after = remainder(state);
    after.cpu_left -= shape.cpu_milli;
    if (!shape.shares()) {
      int wanted = shape.devices;
      for (int i = 0; i < after.count && wanted > 0; ++i) {
        auto& left = after.milli[static_cast<std::size_t>(i)];
        if (left != kDeviceMilli) continue;
        left = 0;
        --wanted;
      }
      return {rounded_gain(node, after), -1};
    }
    NodeScore best{-1, -1};
    for (int i = 0; i < after.count; ++i) {
      if (!fleet_.device_fits(fleet_.spec(node), state.devices[static_cast<std::size_t>(i)], shape)) continue;
      auto& left = after.milli[static_cast<std::size_t>(i)];
      left -= shape.milli;
      const double value = rounded_gain(node, after);
      left += shape.milli;
      if (value > best.value) best = {value, i};
    }
    return best;
  }

 private:
  static Remainder remainder(const NodeState& state) {
    Remainder out{state.cpu_left, state.device_count, {}};
    for (int i = 0; i < state.device_count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.milli[at] = state.devices[at].idle_milli();
    }
    return out;
  }

  [[nodiscard]] double rounded_gain(NodeIndex node, const Remainder& after) const {
    const double gain = (fragment_[node] - fragment(fleet_.spec(node).model, after)) / 1000;
    return std::floor(100 * (1 / (1 + std::exp(-gain))));
  }

  // Idle compute that a job drawn from the typical mix could not use, in expectation.
  [[nodiscard]] double fragment(int model, const Remainder& left) const {
    std::int64_t idle = 0;
    for (int i = 0; i < left.count; ++i) idle += left.milli[static_cast<std::size_t>(i)];
    if (idle == 0) return 0;
    double sum = 0;
    for (const TypicalKind& kind : typical_) {
      int fitting = 0;
      for (int i = 0; i < left.count; ++i)
        fitting += left.milli[static_cast<std::size_t>(i)] >= kind.milli ? 1 : 0;
      const bool allowed = kind.models == 0 || ((kind.models >> model) & 1U) != 0;
      if (kind.milli == 0 || !allowed || left.cpu_left < kind.cpu_milli || fitting < kind.devices) {
        sum += kind.weight * static_cast<double>(idle);
        continue;
      }
      for (int i = 0; i < left.count; ++i) {
        const int milli = left.milli[static_cast<std::size_t>(i)];
        if (milli < kind.milli) sum += kind.weight * milli;
      }
    }
    return sum;
  }

  const Fleet& fleet_;
  std::vector<TypicalKind> typical_;
  std::vector<double> fragment_;  // By node, as it is now.
};

}  // namespace

std::unique_ptr<NodeScorer> make_fragmentation_scorer(const Fleet& fleet,
                                                      const std::vector<Demand>& workload) {
  return std::make_unique<FragmentationScorer>(fleet, workload);
}

}  // namespace tranche::policy
