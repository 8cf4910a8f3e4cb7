// SPDX-License-Identifier: Apache-2.0
// Uniform choice among nodes that fit, then among devices that fit: the floor every policy must beat.
#include "base/random.hpp"
#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class RandomPolicy final : public PlacementPolicy {
 public:
  RandomPolicy(const Fleet& fleet, Random random) : fleet_(fleet), random_(random) {}

  void add_kind(KindIndex kind, const Shape& shape) override {
    shapes_.resize(kind + 1);
    shapes_[kind] = shape;
  }

  std::optional<Placement> choose(KindIndex kind) override {
    const Shape& shape = shapes_[kind];
    NodeIndex pick = kNoNode;
    std::uint64_t seen = 0;
    for (NodeIndex node = 0; node < fleet_.node_count(); ++node)
      if (fleet_.fits(node, shape) && one_in(++seen)) pick = node;
    if (pick == kNoNode) return std::nullopt;
    if (!shape.shares() || shape.devices != 1) return fleet_.tightest(pick, shape);
    const NodeState& state = fleet_.node(pick);
    int device = -1;
    seen = 0;
    for (int i = 0; i < state.device_count; ++i) {
      const DeviceState& candidate = state.devices[static_cast<std::size_t>(i)];
      if (fleet_.device_fits(fleet_.spec(pick), candidate, shape) && one_in(++seen)) device = i;
    }
    return fleet_.on_device(pick, shape, device);
  }

  void node_changed(NodeIndex /*node*/) override {}

 private:
  // Reservoir sampling; the draw for n = 1 is spent as well, as the reference protocol does.
  bool one_in(std::uint64_t n) {
    if (n == 1) {
      random_.next();
      return true;
    }
    return random_.below(n) == 0;
  }

  const Fleet& fleet_;
  Random random_;
  std::vector<Shape> shapes_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_random_policy(const Fleet& fleet, Random random) {
  return std::make_unique<RandomPolicy>(fleet, random);
}

}  // namespace tranche::policy
