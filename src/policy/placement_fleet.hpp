// SPDX-License-Identifier: Apache-2.0
#pragma once
// What capacity is there, and does a shape fit? The fleet books placements on nodes and gives them back; it
// never chooses between nodes. Nothing can be oversold: take() checks what it takes.
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/placement_partition.hpp"
#include "policy/placement_shape.hpp"

namespace tranche::policy {

// Why nodes cannot take a shape: each node is counted once, under the first reason that holds.
struct Unfit {
  std::int64_t closed = 0;
  std::int64_t filtered = 0;
  std::int64_t wrong_model = 0;
  std::int64_t too_small = 0;  // Even empty, the node could not.
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  std::int64_t devices = 0;        // Less idle compute than asked for in all.
  std::int64_t fragmentation = 0;  // Enough idle in sum, on no single device (or slot) that would do.
  std::int64_t fits = 0;
};

class Fleet {
 public:
  Fleet();

  std::uint32_t add_geometry(Geometry geometry);
  FilterIndex add_filter(std::vector<PoolIndex> allowed_pools);
  // Ties between equal nodes go to the one added first: add them in a stable, random-looking order.
  NodeIndex add_node(const NodeSpec& spec);
  void set_open(NodeIndex node, bool open);
  void set_blocked(NodeIndex node, int device, bool blocked);
  // Slots that are free now and shall not be taken; gives those that were free. Given back by unkeep_slots().
  std::uint16_t keep_slots(NodeIndex node, int device, std::uint16_t slots);
  void unkeep_slots(NodeIndex node, int device, std::uint16_t slots);

  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] const NodeState& node(NodeIndex node) const { return nodes_[node]; }
  [[nodiscard]] const std::vector<NodeSpec>& types() const { return types_; }
  [[nodiscard]] const NodeSpec& spec(NodeIndex node) const { return types_[nodes_[node].type]; }
  [[nodiscard]] const Geometry& geometry(const NodeSpec& spec) const { return geometries_[spec.geometry]; }
  [[nodiscard]] std::int64_t capacity_milli() const { return capacity_milli_; }
  [[nodiscard]] std::int64_t allocated_milli() const { return allocated_milli_; }

  [[nodiscard]] bool type_allows(const NodeSpec& spec, const Shape& shape) const;
  [[nodiscard]] bool device_fits(const NodeSpec& spec, const DeviceState& device, const Shape& shape) const;
  [[nodiscard]] bool state_fits(const NodeState& state, const Shape& shape) const;
  [[nodiscard]] bool fits(NodeIndex node, const Shape& shape) const {
    return state_fits(nodes_[node], shape);
  }
  [[nodiscard]] Unfit explain(const Shape& shape) const;
  // How many of the shape an empty node would hold.
  [[nodiscard]] std::uint32_t members_of_empty(const NodeSpec& spec, const Shape& shape) const;
  // Whether it fits on these very devices, as they are left in the node.
  [[nodiscard]] bool fits_at(const NodeState& state, const Shape& shape, const Placement& placement) const;

  // The tightest devices that fit: least compute left, then least VRAM, then lowest position.
  [[nodiscard]] std::optional<Placement> tightest(NodeIndex node, const Shape& shape) const;
  // The same with the first device given; for a shape of one device.
  [[nodiscard]] Placement on_device(NodeIndex node, const Shape& shape, int device) const;

  void take(const Shape& shape, const Placement& placement);
  // Of somebody who is there already and becomes smaller or larger: closed or not, he stays.
  void take_anyway(const Shape& shape, const Placement& placement);
  void release(const Shape& shape, const Placement& placement);
  // Of a copy of a node, to see what would be.
  void release_from(NodeState& state, const Shape& shape, const Placement& placement) const;
  void take_on(NodeState& state, const Shape& shape, const Placement& placement) const;

 private:
  void take_device(const NodeSpec& spec, DeviceState& device, const Shape& shape, int slot) const;
  void release_device(const NodeSpec& spec, DeviceState& device, const Shape& shape, int slot) const;
  [[nodiscard]] Unfit classify(const NodeState& state, const Shape& shape) const;
  [[nodiscard]] std::int64_t per_device(const NodeSpec& spec, const Shape& shape) const;

  std::vector<NodeState> nodes_;
  std::vector<NodeSpec> types_;
  std::vector<Geometry> geometries_;
  std::vector<std::vector<PoolIndex>> filters_;
  std::int64_t capacity_milli_ = 0;
  std::int64_t allocated_milli_ = 0;
};

}  // namespace tranche::policy
