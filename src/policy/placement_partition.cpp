// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_partition.hpp"

namespace tranche::policy {

const PartitionProfile* Geometry::find(std::int32_t profile) const {
  for (const PartitionProfile& candidate : profiles)
    if (candidate.profile == profile) return &candidate;
  return nullptr;
}

int Geometry::room(std::uint16_t slots_used) const {
  int sum = 0;
  for (const PartitionProfile& profile : profiles) {
    for (int start = 0; start < 16; ++start) {
      const bool legal = ((profile.starts >> start) & 1U) != 0;
      // Squared: one place for a large profile is worth more than several for small ones.
      if (legal && (profile.slots_at(start) & slots_used) == 0) sum += profile.width * profile.width;
    }
  }
  return sum;
}

std::optional<int> Geometry::best_start(const PartitionProfile& wanted, std::uint16_t slots_used) const {
  std::optional<int> best;
  int best_room = -1;
  for (int start = 0; start < 16; ++start) {
    if (((wanted.starts >> start) & 1U) == 0) continue;
    const std::uint16_t slots = wanted.slots_at(start);
    if ((slots & slots_used) != 0) continue;
    const int left = room(static_cast<std::uint16_t>(slots | slots_used));
    if (left >= best_room) {
      best = start;
      best_room = left;
    }
  }
  return best;
}

}  // namespace tranche::policy
