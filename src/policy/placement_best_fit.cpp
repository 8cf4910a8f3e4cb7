// SPDX-License-Identifier: Apache-2.0
// Best fit: the node on which least would be left, CPU and compute weighed alike.
#include <cmath>

#include "policy/placement_normal.hpp"
#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class BestFitScorer final : public NodeScorer {
 public:
  explicit BestFitScorer(const Fleet& fleet) : fleet_(fleet) {}
  [[nodiscard]] NodeScore score(NodeIndex node, const Shape& shape) const override {
    const NodeState& state = fleet_.node(node);
    const auto cpu = static_cast<double>(state.cpu_left - shape.cpu_milli);
    const auto gpu = static_cast<double>(state.idle_milli() - shape.gpu_milli());
    return {std::floor(100 * (1 - (0.5 * cpu / kCpuScale + 0.5 * gpu / kGpuScale))), -1};
  }

 private:
  const Fleet& fleet_;
};

}  // namespace

std::unique_ptr<NodeScorer> make_best_fit_scorer(const Fleet& fleet) {
  return std::make_unique<BestFitScorer>(fleet);
}

}  // namespace tranche::policy
