// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who has had less than their share lately: use that fades with a half-life, compared over a tree of shares.
//
// Integers only, so that every build ranks alike. Use is kept in device-seconds; a fraction of a device
// counts by its thousandths when the caller charges in those.
#include <cstdint>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

// 2^-(elapsed / half_life) in units of 2^-32.
std::uint64_t fade_q32(Seconds elapsed, Seconds half_life);

// Device-seconds held at a known rate, fading all the while.
class FadingUse {
 public:
  void set_rate(std::int64_t rate, Seconds now, Seconds half_life);
  void charge(std::int64_t amount, Seconds now, Seconds half_life);
  [[nodiscard]] std::int64_t at(Seconds now, Seconds half_life) const;
  [[nodiscard]] std::int64_t rate() const { return rate_; }

 private:
  std::int64_t amount_ = 0;
  std::int64_t rate_ = 0;
  Seconds since_ = 0;
};

using ShareNode = std::int32_t;

// Parents before children. At every level siblings are compared by use over shares; a leaf's rank follows
// from the highest level at which it differs from another, so a unit cannot gain by splitting itself.
class FairShareTree {
 public:
  static constexpr ShareNode kRoot = 0;
  explicit FairShareTree(Seconds half_life = 86400);

  ShareNode add(ShareNode parent, std::int64_t shares);
  void change_rate(ShareNode leaf, std::int64_t by, Seconds now);  // Held devices of the leaf change.
  void charge(ShareNode leaf, std::int64_t amount, Seconds now);   // Use that came without a rate.
  [[nodiscard]] std::int64_t use(ShareNode node, Seconds now) const;
  // Rank of every node that has no child: 0 goes first. Other nodes have -1.
  [[nodiscard]] std::vector<std::int32_t> ranks(Seconds now) const;

 private:
  struct Node {
    ShareNode parent = kRoot;
    std::int64_t shares = 1;
    std::vector<ShareNode> children;
    FadingUse use;
  };
  void rank_below(ShareNode node,
                  const std::vector<std::int64_t>& uses,
                  std::int32_t& next,
                  std::vector<std::int32_t>& ranks) const;
  Seconds half_life_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace tranche::policy
