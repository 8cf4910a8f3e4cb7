// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which waiting kinds could fit now? A kind that was refused stays hopeless until a node it fits on has
// changed, so a pass over a long queue costs what changed, not what waits.
#include <cstdint>
#include <vector>

#include "policy/placement_fleet.hpp"

namespace tranche::policy {

class WaitingKinds {
 public:
  void wait(KindIndex kind, const Shape& shape);  // One more job of this kind waits.
  void leave(KindIndex kind);                     // One fewer: started or withdrawn.
  void refused(KindIndex kind);                   // It was offered, and fits nowhere.
  void node_freed(NodeIndex node);                // Something left this node, or it opened.

  // Call once at the start of a pass: looks at the freed nodes and revives the kinds that fit on one of them.
  // Returns how many kinds with waiting jobs may fit.
  std::size_t revive(const Fleet& fleet);

  [[nodiscard]] bool may_fit(KindIndex kind) const {
    return kind < entries_.size() && entries_[kind].waiting > 0 && !entries_[kind].hopeless;
  }
  [[nodiscard]] std::uint64_t waiting(KindIndex kind) const {
    return kind < entries_.size() ? entries_[kind].waiting : 0;
  }

 private:
  struct Entry {
    Shape shape;
    std::uint64_t waiting = 0;
    bool hopeless = false;
  };
  std::vector<Entry> entries_;
  std::vector<NodeIndex> freed_;
};

}  // namespace tranche::policy
