// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which nodes of identical devices can hold a gang, consolidated: up to one node's devices on one node (the
// tightest fit), more on whole nodes plus one remainder. Ties go to the lowest node number.
//
// A node's free count may fall below zero for a while: devices promised to a job that waits for others to
// leave.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tranche::policy {

using Seconds = std::int64_t;
using JobIndex = std::int32_t;    // Number of a job in the order of submission; -1: none.
using GroupIndex = std::int32_t;  // Number of a group (virtual cluster, tenant, subscriber) with a guarantee.

struct NodeShare {
  std::int32_t node = 0;
  std::int32_t gpus = 0;
  bool operator==(const NodeShare&) const = default;
};

// Where a gang sits. Nearly all gangs sit on one node, so one share is kept without an allocation.
class GangPlacement {
 public:
  void add(NodeShare share);
  void clear();
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] const NodeShare* begin() const { return count_ <= 1 ? &first_ : many_.data(); }
  [[nodiscard]] const NodeShare* end() const { return begin() + count_; }
  [[nodiscard]] bool uses(std::int32_t node) const;

 private:
  NodeShare first_{};
  std::size_t count_ = 0;
  std::vector<NodeShare> many_;
};

class NodePool {
 public:
  NodePool() = default;
  NodePool(std::int32_t nodes, std::int32_t gpus_per_node);

  [[nodiscard]] std::optional<GangPlacement> find(std::int32_t gpus) const;
  void take(const GangPlacement& placement);
  void give(const GangPlacement& placement);

  [[nodiscard]] std::int32_t nodes() const { return static_cast<std::int32_t>(free_.size()); }
  [[nodiscard]] std::int32_t gpus_per_node() const { return gpus_per_node_; }
  [[nodiscard]] std::int32_t capacity() const { return nodes() * gpus_per_node_; }
  [[nodiscard]] std::int32_t free(std::int32_t node) const { return free_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::int32_t idle() const { return idle_; }  // Sum of what is free, promises taken off.

 private:
  void change(std::int32_t node, std::int32_t by);
  [[nodiscard]] std::int32_t tightest(std::int32_t gpus, const GangPlacement& besides) const;
  [[nodiscard]] std::span<const std::uint64_t> level(std::int32_t free) const;

  std::int32_t gpus_per_node_ = 0;
  std::int32_t idle_ = 0;
  std::size_t words_ = 0;
  std::vector<std::int32_t> free_;
  std::vector<std::uint64_t> with_free_;  // One bit set of nodes for each count of free devices.
};

}  // namespace tranche::policy
