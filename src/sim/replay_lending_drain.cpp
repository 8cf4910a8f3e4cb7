// SPDX-License-Identifier: Apache-2.0
// Nodes kept clear for a gang that presses: without this, small work that comes and goes would fill every gap
// that opens, and no two nodes would ever be empty at the same time.
#include <algorithm>

#include "sim/replay_lending.hpp"

namespace tranche::sim {

// The nodes expected to be clear first. They stay chosen until the gang has started, or they never would be.
void LendingCluster::drain_nodes_for(JobIndex number, Seconds now) {
  if (drained_for_ >= 0) return;
  struct Clear {
    Seconds at = 0;
    std::int32_t node = 0;
    auto operator<=>(const Clear&) const = default;
  };
  std::vector<Clear> clear(occupants_.size());
  for (std::size_t node = 0; node < occupants_.size(); ++node) {
    clear[node] = {now, static_cast<std::int32_t>(node)};
    for (const policy::Occupant& occupant : occupants_[node]) {
      const LendingJob& job = this->job(occupant.job);
      const Seconds expected = policy::expected_end(job.started, job.predicted - job.saved, now);
      const Seconds takeable = std::max(now, job.started + rules_.minimum_run);
      const Seconds at = job.standing == Standing::kBorrowing ? std::min(expected, takeable) : expected;
      clear[node].at = std::max(clear[node].at, at);
    }
  }
  std::sort(clear.begin(), clear.end());
  const std::int32_t per_node = nodes_.gpus_per_node();
  const auto needed = static_cast<std::size_t>((job(number).gpus + per_node - 1) / per_node);
  drained_for_ = number;
  drained_.clear();
  for (std::size_t i = 0; i < needed && i < clear.size(); ++i) drained_.push_back(clear[i].node);
  hold_drained();
}

void LendingCluster::hold_drained() {
  release_drained();
  if (drained_for_ < 0) return;
  if (job(drained_for_).standing != Standing::kWaiting) {
    drained_for_ = -1;
    return;
  }
  for (const std::int32_t node : drained_) {
    if (nodes_.free(node) > 0) held_.add({node, nodes_.free(node)});
  }
  nodes_.take(held_);
}

void LendingCluster::release_drained() {
  nodes_.give(held_);
  held_.clear();
}

// Room outside the drained nodes; the gang they are drained for may use them, of course.
std::optional<policy::GangPlacement> LendingCluster::find_room(JobIndex number) {
  if (number == drained_for_) release_drained();
  auto found = nodes_.find(job(number).gpus);
  if (number == drained_for_ && !found) hold_drained();
  return found;
}

}  // namespace tranche::sim
