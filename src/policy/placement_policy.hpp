// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one question every placement policy answers: which node, and which devices of it, for this kind of job?
//
// A policy reads the fleet and never changes it; it is told of every change. Pure: the same calls in the same
// order give the same answers on every build.
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "policy/placement_fleet.hpp"
#include "policy/placement_shape.hpp"

namespace tranche::policy {

class PlacementPolicy {
 public:
  PlacementPolicy() = default;
  PlacementPolicy(const PlacementPolicy&) = delete;
  PlacementPolicy& operator=(const PlacementPolicy&) = delete;
  virtual ~PlacementPolicy() = default;

  // A kind is met for the first time. Kinds are numbered from 0 without gaps.
  virtual void add_kind(KindIndex kind, const Shape& shape) = 0;
  // A job of this kind asks; called once a job, before choose(). Policies that learn the mix learn here.
  virtual void arrived(KindIndex /*kind*/) {}
  // A job of this kind ended; not called when a job only moves.
  virtual void departed(KindIndex /*kind*/) {}
  // nullopt: it fits nowhere.
  virtual std::optional<Placement> choose(KindIndex kind) = 0;
  virtual void node_changed(NodeIndex node) = 0;
};

// How good is a node that fits? Higher is better; equal scores go to the node added first.
struct NodeScore {
  double value = 0;
  std::int32_t device = -1;  // For shapes of one shared device: which; -1 = the tightest that fit.
};

class NodeScorer {
 public:
  NodeScorer() = default;
  NodeScorer(const NodeScorer&) = delete;
  NodeScorer& operator=(const NodeScorer&) = delete;
  virtual ~NodeScorer() = default;
  [[nodiscard]] virtual NodeScore score(NodeIndex node, const Shape& shape) const = 0;
  virtual void node_changed(NodeIndex /*node*/) {}
};

// A kind and how often it is seen; what policies with foreknowledge are given.
struct Demand {
  Shape shape;
  std::int64_t count = 0;
};

// The comparators of the literature, each in its own file. They hold the fleet by reference.
std::unique_ptr<NodeScorer> make_best_fit_scorer(const Fleet& fleet);
std::unique_ptr<NodeScorer> make_dot_product_scorer(const Fleet& fleet);
std::unique_ptr<NodeScorer> make_packing_scorer(const Fleet& fleet);
std::unique_ptr<NodeScorer> make_clustering_scorer(const Fleet& fleet);
std::unique_ptr<NodeScorer> make_fragmentation_scorer(const Fleet& fleet,
                                                      const std::vector<Demand>& workload);

// Scores every node that fits, keeping scores of unchanged nodes.
std::unique_ptr<PlacementPolicy> make_scan_policy(const Fleet& fleet, std::unique_ptr<NodeScorer> scorer);
// Uniform over nodes and devices that fit.
std::unique_ptr<PlacementPolicy> make_random_policy(const Fleet& fleet, Random random);

}  // namespace tranche::policy
