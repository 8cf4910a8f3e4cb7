// SPDX-License-Identifier: Apache-2.0
#include "policy/lending_nodes.hpp"

#include <algorithm>
#include <bit>

#include "base/check.hpp"

namespace tranche::policy {

void GangPlacement::add(NodeShare share) {
  if (count_ == 0) {
    first_ = share;
  } else {
    if (count_ == 1) many_.assign(1, first_);
    many_.push_back(share);
  }
  ++count_;
}

void GangPlacement::clear() {
  count_ = 0;
  many_.clear();
}

bool GangPlacement::uses(std::int32_t node) const {
  return std::any_of(begin(), end(), [&](const NodeShare& share) { return share.node == node; });
}

NodePool::NodePool(std::int32_t nodes, std::int32_t gpus_per_node)
    : gpus_per_node_(gpus_per_node),
      idle_(nodes * gpus_per_node),
      words_((static_cast<std::size_t>(nodes) + 63) / 64),
      free_(static_cast<std::size_t>(nodes), gpus_per_node),
      with_free_(words_ * (static_cast<std::size_t>(gpus_per_node) + 1)) {
  TRANCHE_CHECK(nodes >= 0 && gpus_per_node > 0);
  for (std::int32_t node = 0; node < nodes; ++node) {
    const auto bit = static_cast<std::size_t>(node);
    with_free_[static_cast<std::size_t>(gpus_per_node) * words_ + bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

std::span<const std::uint64_t> NodePool::level(std::int32_t free) const {
  return {with_free_.data() + static_cast<std::size_t>(free) * words_, words_};
}

std::int32_t NodePool::tightest(std::int32_t gpus, const GangPlacement& besides) const {
  for (std::int32_t free = gpus; free <= gpus_per_node_; ++free) {
    const auto bits = level(free);
    for (std::size_t word = 0; word < words_; ++word) {
      for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
        const auto node = static_cast<std::int32_t>(word * 64) + std::countr_zero(left);
        if (!besides.uses(node)) return node;
      }
    }
  }
  return -1;
}

std::optional<GangPlacement> NodePool::find(std::int32_t gpus) const {
  if (gpus <= 0 || gpus > idle_) return std::nullopt;
  GangPlacement found;
  const std::int32_t whole = gpus > gpus_per_node_ ? gpus / gpus_per_node_ : 0;
  const std::int32_t rest = gpus - whole * gpus_per_node_;
  if (whole > 0) {
    const auto bits = level(gpus_per_node_);
    for (std::size_t word = 0; word < words_ && found.size() < static_cast<std::size_t>(whole); ++word) {
      for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
        found.add({static_cast<std::int32_t>(word * 64) + std::countr_zero(left), gpus_per_node_});
        if (found.size() == static_cast<std::size_t>(whole)) break;
      }
    }
    if (found.size() < static_cast<std::size_t>(whole)) return std::nullopt;
  }
  if (rest > 0) {
    const std::int32_t node = tightest(rest, found);
    if (node < 0) return std::nullopt;
    found.add({node, rest});
  }
  return found;
}

void NodePool::change(std::int32_t node, std::int32_t by) {
  std::int32_t& free = free_[static_cast<std::size_t>(node)];
  const auto word = static_cast<std::size_t>(node) / 64;
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<std::size_t>(node) % 64);
  const auto row = [&](std::int32_t count) { return static_cast<std::size_t>(std::max(count, 0)) * words_; };
  with_free_[row(free) + word] &= ~bit;
  free += by;
  idle_ += by;
  TRANCHE_CHECK(free <= gpus_per_node_);
  with_free_[row(free) + word] |= bit;
}

void NodePool::take(const GangPlacement& placement) {
  for (const NodeShare& share : placement) change(share.node, -share.gpus);
}

void NodePool::give(const GangPlacement& placement) {
  for (const NodeShare& share : placement) change(share.node, share.gpus);
}

}  // namespace tranche::policy
