// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_waiting.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranche::policy {

void WaitingKinds::wait(KindIndex kind, const Shape& shape) {
  if (kind >= entries_.size()) entries_.resize(kind + 1);
  entries_[kind].shape = shape;
  ++entries_[kind].waiting;
}

void WaitingKinds::leave(KindIndex kind) {
  TRANCHE_CHECK(kind < entries_.size() && entries_[kind].waiting > 0);
  --entries_[kind].waiting;
}

void WaitingKinds::refused(KindIndex kind) {
  if (kind < entries_.size()) entries_[kind].hopeless = true;
}

void WaitingKinds::node_freed(NodeIndex node) {
  freed_.push_back(node);
}

std::size_t WaitingKinds::revive(const Fleet& fleet) {
  std::sort(freed_.begin(), freed_.end());
  freed_.erase(std::unique(freed_.begin(), freed_.end()), freed_.end());
  std::size_t hopeful = 0;
  for (Entry& entry : entries_) {
    // Kinds nobody waits for are revived too: they may be asked for before the next pass.
    if (entry.hopeless) {
      const auto fits = [&](NodeIndex node) { return fleet.fits(node, entry.shape); };
      entry.hopeless = std::none_of(freed_.begin(), freed_.end(), fits);
    }
    hopeful += entry.waiting > 0 && !entry.hopeless ? 1 : 0;
  }
  freed_.clear();
  return hopeful;
}

}  // namespace tranche::policy
