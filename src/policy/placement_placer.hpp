// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fleet with a policy that chooses: place() and release() for callers that do not care how.
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "policy/placement_policy.hpp"

namespace tranche::policy {

enum class Learning {
  kCount,
  kIgnore
};  // Does this question count as demand? A retry or a what-if does not.

class Placer {
 public:
  explicit Placer(Fleet fleet) : fleet_(std::move(fleet)) {}
  Placer(const Placer&) = delete;
  Placer& operator=(const Placer&) = delete;
  ~Placer() = default;

  // The policy was made for fleet() of this very object. Kinds known so far are told to it.
  void use(std::unique_ptr<PlacementPolicy> policy) {
    policy_ = std::move(policy);
    for (KindIndex kind = 0; kind < shapes_.size(); ++kind) policy_->add_kind(kind, shapes_[kind]);
  }

  [[nodiscard]] const Fleet& fleet() const { return fleet_; }
  [[nodiscard]] const Shape& shape(KindIndex kind) const { return shapes_[kind]; }
  [[nodiscard]] std::size_t kind_count() const { return shapes_.size(); }

  // Equal shapes are one kind.
  KindIndex kind(const Shape& shape) {
    const auto [at, fresh] = kinds_.emplace(shape, static_cast<KindIndex>(shapes_.size()));
    if (fresh) {
      shapes_.push_back(shape);
      if (policy_) policy_->add_kind(at->second, shape);
    }
    return at->second;
  }

  // nullopt: it fits nowhere; fleet().explain(shape) says why.
  std::optional<Placement> place(KindIndex kind, Learning learning = Learning::kCount) {
    if (learning == Learning::kCount) policy_->arrived(kind);
    const auto placement = policy_->choose(kind);
    if (placement) take(kind, *placement);
    return placement;
  }

  // Where it would go now. Changes and learns nothing.
  std::optional<Placement> would_place(KindIndex kind) { return policy_->choose(kind); }

  // Books a placement decided elsewhere: an event of the journal, or a move.
  void take(KindIndex kind, const Placement& placement) {
    fleet_.take(shapes_[kind], placement);
    policy_->node_changed(placement.node);
  }

  void take_anyway(KindIndex kind, const Placement& placement) {
    fleet_.take_anyway(shapes_[kind], placement);
    policy_->node_changed(placement.node);
  }

  void release(KindIndex kind, const Placement& placement, Learning learning = Learning::kCount) {
    if (learning == Learning::kCount) policy_->departed(kind);
    fleet_.release(shapes_[kind], placement);
    policy_->node_changed(placement.node);
  }

  // For callers that learn when a job is submitted and take when it is placed.
  void arrived(KindIndex kind) { policy_->arrived(kind); }
  void departed(KindIndex kind) { policy_->departed(kind); }

  std::uint32_t add_geometry(Geometry geometry) { return fleet_.add_geometry(std::move(geometry)); }
  NodeIndex add_node(const NodeSpec& spec) {
    const NodeIndex node = fleet_.add_node(spec);
    if (policy_) policy_->node_changed(node);
    return node;
  }
  void set_open(NodeIndex node, bool open) {
    fleet_.set_open(node, open);
    policy_->node_changed(node);
  }
  void set_blocked(NodeIndex node, int device, bool blocked) {
    fleet_.set_blocked(node, device, blocked);
    policy_->node_changed(node);
  }
  std::uint16_t keep_slots(NodeIndex node, int device, std::uint16_t slots) {
    const std::uint16_t kept = fleet_.keep_slots(node, device, slots);
    policy_->node_changed(node);
    return kept;
  }
  void unkeep_slots(NodeIndex node, int device, std::uint16_t slots) {
    fleet_.unkeep_slots(node, device, slots);
    policy_->node_changed(node);
  }

 private:
  Fleet fleet_;
  std::unique_ptr<PlacementPolicy> policy_;
  std::map<Shape, KindIndex> kinds_;
  std::vector<Shape> shapes_;
};

}  // namespace tranche::policy
