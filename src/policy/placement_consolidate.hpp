// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job fits nowhere: which few running jobs could move elsewhere so that it does? Cheapest first, bounded in
// moves and in tries. Whether a move is worth its cost is for the caller to say.
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/placement_placer.hpp"

namespace tranche::policy {

struct Resident {
  std::uint64_t job = 0;
  KindIndex kind = 0;
  Placement placement;
};

struct Move {
  std::uint64_t job = 0;
  KindIndex kind = 0;
  Placement from;
  Placement to;
};

struct ConsolidationLimits {
  int moves = 3;  // For one blocked job.
  int tries = 24;
};

// Who runs where. The caller tells it of every start, end and move.
class Residents {
 public:
  void add(const Resident& resident);
  void remove(std::uint64_t job, NodeIndex node);
  void apply(const Move& move) {
    remove(move.job, move.from.node);
    add({move.job, move.kind, move.to});
  }
  [[nodiscard]] const std::vector<Resident>& on(NodeIndex node) const;

 private:
  std::vector<std::vector<Resident>> by_node_;
};

// On success the moves are booked in the placer and the residents, and `wanted` fits. Otherwise nothing
// changed.
std::optional<std::vector<Move>> make_room(Placer& placer,
                                           Residents& residents,
                                           KindIndex wanted,
                                           const ConsolidationLimits& limits = {});

}  // namespace tranche::policy
