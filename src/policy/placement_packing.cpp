// SPDX-License-Identifier: Apache-2.0
// Packing: devices in use first, then free devices of nodes in use, then untouched nodes.
#include <algorithm>

#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class PackingScorer final : public NodeScorer {
 public:
  explicit PackingScorer(const Fleet& fleet) : fleet_(fleet) {}
  [[nodiscard]] NodeScore score(NodeIndex node, const Shape& shape) const override {
    if (shape.devices == 0) return {0, -1};
    const NodeState& state = fleet_.node(node);
    const int free = state.free_devices();
    if (free == state.device_count) return {static_cast<double>(std::max(33 - free, free)), -1};
    const int left = shape.whole() ? kDeviceMilli : tightest_left(node, shape);
    const int from_free = shape.whole() ? shape.devices : (left == kDeviceMilli ? 1 : 0);
    if (from_free > 0) return {static_cast<double>(std::max(50 - from_free, 33)), -1};
    return {static_cast<double>(std::max(100 - left * 100 / kDeviceMilli / 10, 50)), -1};
  }

 private:
  [[nodiscard]] int tightest_left(NodeIndex node, const Shape& shape) const {
    const NodeState& state = fleet_.node(node);
    int least = kDeviceMilli;
    for (int i = 0; i < state.device_count; ++i) {
      const DeviceState& device = state.devices[static_cast<std::size_t>(i)];
      if (fleet_.device_fits(fleet_.spec(node), device, shape))
        least = std::min<int>(least, device.milli_left);
    }
    return least;
  }
  const Fleet& fleet_;
};

}  // namespace

std::unique_ptr<NodeScorer> make_packing_scorer(const Fleet& fleet) {
  return std::make_unique<PackingScorer>(fleet);
}

}  // namespace tranche::policy
