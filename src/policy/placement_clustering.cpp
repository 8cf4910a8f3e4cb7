// SPDX-License-Identifier: Apache-2.0
// Clustering: keep jobs of the same device count together, on fuller nodes first.
#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class ClusteringScorer final : public NodeScorer {
 public:
  explicit ClusteringScorer(const Fleet& fleet) : fleet_(fleet) {}
  [[nodiscard]] NodeScore score(NodeIndex node, const Shape& shape) const override {
    if (shape.devices == 0) return {0, -1};
    const NodeState& state = fleet_.node(node);
    int classes = 0;
    for (const std::uint16_t jobs : state.hosted) classes += jobs > 0 ? 1 : 0;
    const bool same = state.hosted[static_cast<std::size_t>(shape.whole() ? shape.devices : 0)] > 0;
    std::int64_t base = 0;
    if (same) {
      base = classes == 1 ? 75 : 50;
    } else if (classes == 0) {
      base = 25;
    }
    return {static_cast<double>(base + 25 * (8000 - state.idle_milli()) / 8000), -1};
  }

 private:
  const Fleet& fleet_;
};

}  // namespace

std::unique_ptr<NodeScorer> make_clustering_scorer(const Fleet& fleet) {
  return std::make_unique<ClusteringScorer>(fleet);
}

}  // namespace tranche::policy
