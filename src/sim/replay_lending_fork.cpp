// SPDX-License-Identifier: Apache-2.0
// A small copy of a cluster under lending, to be run ahead: jobs that are done are left behind.
#include "base/check.hpp"
#include "sim/replay_lending.hpp"

namespace tranche::sim {

LendingCluster LendingCluster::compact_fork(JobIndex& asked) const {
  LendingCluster fork;
  fork.rules_ = rules_;
  fork.nodes_ = nodes_;
  fork.occupants_ = occupants_;
  fork.pools_ = pools_;
  fork.history_ = history_;
  fork.shares_ = shares_;
  fork.losses_ = losses_;
  fork.next_moves_ = next_moves_;
  std::vector<JobIndex> renumbered(jobs_.size() - first_open_, -1);
  for (std::size_t i = first_open_; i < jobs_.size(); ++i) {
    if (jobs_[i].standing == Standing::kDone) continue;
    renumbered[i - first_open_] = static_cast<JobIndex>(fork.jobs_.size());
    fork.jobs_.push_back(jobs_[i]);
  }
  const auto renumber = [&](JobIndex& number) {
    number = renumbered[static_cast<std::size_t>(number) - first_open_];
    TRANCHE_CHECK(number >= 0);
  };
  for (LendingPool& pool : fork.pools_) {
    for (auto* list : {&pool.waiting, &pool.borrowing, &pool.protected_jobs}) {
      for (JobIndex& number : *list) renumber(number);
    }
  }
  for (auto& node : fork.occupants_) {
    for (policy::Occupant& occupant : node) renumber(occupant.job);
  }
  // Ends are drawn anew by the forecast; what was already decided (stops and starts) comes along.
  for (auto left = events_; !left.empty(); left.pop()) {
    Event event = left.top();
    if (event.kind == EventKind::kEnd || job(event.job).epoch != event.epoch) continue;
    renumber(event.job);
    fork.events_.push(event);
  }
  renumber(asked);
  return fork;
}

}  // namespace tranche::sim
