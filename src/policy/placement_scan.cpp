// SPDX-License-Identifier: Apache-2.0
// The plain way to use a scorer: look at every node, keep what has not changed since the last look.
#include <utility>

#include "policy/placement_policy.hpp"

namespace tranche::policy {
namespace {

class ScanPolicy final : public PlacementPolicy {
 public:
  ScanPolicy(const Fleet& fleet, std::unique_ptr<NodeScorer> scorer)
      : fleet_(fleet), scorer_(std::move(scorer)) {}

  void add_kind(KindIndex kind, const Shape& shape) override {
    shapes_.resize(kind + 1);
    rows_.resize(kind + 1);
    shapes_[kind] = shape;
  }

  std::optional<Placement> choose(KindIndex kind) override {
    const Shape& shape = shapes_[kind];
    auto& row = rows_[kind];
    row.resize(fleet_.node_count());
    const Seen* best = nullptr;
    NodeIndex best_node = kNoNode;
    for (NodeIndex node = 0; node < row.size(); ++node) {
      Seen& seen = row[node];
      const std::uint32_t version = fleet_.node(node).version;
      if (seen.version != version) {
        seen.version = version;
        seen.fits = fleet_.fits(node, shape);
        if (seen.fits) seen.score = scorer_->score(node, shape);
      }
      if (!seen.fits || (best != nullptr && seen.score.value <= best->score.value)) continue;
      best = &seen;
      best_node = node;
    }
    if (best == nullptr) return std::nullopt;
    if (best->score.device >= 0) return fleet_.on_device(best_node, shape, best->score.device);
    return fleet_.tightest(best_node, shape);
  }

  void node_changed(NodeIndex node) override { scorer_->node_changed(node); }

 private:
  struct Seen {
    std::uint32_t version = 0;
    bool fits = false;
    NodeScore score;
  };
  const Fleet& fleet_;
  std::unique_ptr<NodeScorer> scorer_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<Seen>> rows_;  // By kind, then node.
};

}  // namespace

std::unique_ptr<PlacementPolicy> make_scan_policy(const Fleet& fleet, std::unique_ptr<NodeScorer> scorer) {
  return std::make_unique<ScanPolicy>(fleet, std::move(scorer));
}

}  // namespace tranche::policy
