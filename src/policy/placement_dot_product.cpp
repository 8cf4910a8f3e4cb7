// SPDX-License-Identifier: Apache-2.0
// Dot product: the node whose free vector points least along the request.
#include <cmath>

#include "policy/placement_normal.hpp"
#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class DotProductScorer final : public NodeScorer {
 public:
  explicit DotProductScorer(const Fleet& fleet) : fleet_(fleet) {}
  [[nodiscard]] NodeScore score(NodeIndex node, const Shape& shape) const override {
    const NodeState& state = fleet_.node(node);
    const double cpu =
        static_cast<double>(state.cpu_left) / kCpuScale * (static_cast<double>(shape.cpu_milli) / kCpuScale);
    const double gpu = static_cast<double>(state.idle_milli()) / kGpuScale *
                       (static_cast<double>(shape.gpu_milli()) / kGpuScale);
    return {std::floor(100 * (1 - (cpu + gpu) / 2)), -1};
  }

 private:
  const Fleet& fleet_;
};

}  // namespace

std::unique_ptr<NodeScorer> make_dot_product_scorer(const Fleet& fleet) {
  return std::make_unique<DotProductScorer>(fleet);
}

}  // namespace tranche::policy
