// SPDX-License-Identifier: Apache-2.0
// One scheduling pass under lending: first what guarantees entitle to, then loans of what is left.
#include <algorithm>

#include "sim/replay_lending.hpp"

namespace tranche::sim {

using policy::Harm;
using policy::kSpared;

void LendingCluster::pass(Seconds now) {
  if (run_ != nullptr) ++run_->passes;
  hold_drained();
  for (GroupIndex pool = 0; pool < static_cast<GroupIndex>(pools_.size()); ++pool) guarantee_phase(pool, now);
  borrow_phase(now);
  release_drained();
}

Seconds LendingCluster::waited(const LendingJob& job, Seconds now) const {
  return job.waited + (job.standing == Standing::kWaiting ? now - job.ready : 0);
}

Harm LendingCluster::stop_harm(JobIndex number, Seconds now) const {
  const LendingJob& job = this->job(number);
  // It goes on through the grace, and may reach its next checkpoint in it.
  const Seconds since = progress(job, now + rules_.grace) % rules_.checkpoint_every;
  return policy::harm_of({job.gpus, since, rules_.restart, job.preemptions});
}

void LendingCluster::guarantee_phase(GroupIndex number, Seconds now) {
  LendingPool& pool = pools_[static_cast<std::size_t>(number)];
  if (!pool.changed || pool.protected_use >= pool.guarantee) return;
  claimants_.clear();
  auto waiting = pool.waiting.begin();
  auto borrowing = pool.borrowing.begin();
  while (waiting != pool.waiting.end() || borrowing != pool.borrowing.end()) {
    const bool take_waiting =
        borrowing == pool.borrowing.end() || (waiting != pool.waiting.end() && *waiting < *borrowing);
    const JobIndex next = take_waiting ? *waiting++ : *borrowing++;
    const LendingJob& job = this->job(next);
    if (job.leaving) continue;
    claimants_.push_back({next, job.gpus, history_->predict(job.kind)});
  }
  releases_.clear();
  for (const JobIndex running : pool.protected_jobs) {
    const LendingJob& job = this->job(running);
    releases_.push_back({policy::expected_end(job.started, job.predicted - job.saved, now), job.gpus});
  }
  policy::entitled_jobs({pool.guarantee, pool.protected_use, releases_, claimants_, now}, entitled_);
  bool all_placed = true;
  for (const JobIndex granted : entitled_) {
    if (job(granted).standing == Standing::kBorrowing) {
      protect_in_place(granted, now);
    } else {
      all_placed = start_entitled(granted, now) && all_placed;
    }
  }
  pool.changed = !all_placed;
}

bool LendingCluster::start_entitled(JobIndex number, Seconds now) {
  if (start_at_once(number, now, Standing::kProtected)) return true;
  if (reclaim_for(number, now)) return true;
  if (held_.empty()) return false;
  release_drained();  // A guarantee goes before a gang that borrows.
  const bool started = start_at_once(number, now, Standing::kProtected) || reclaim_for(number, now);
  hold_drained();
  return started;
}

bool LendingCluster::start_at_once(JobIndex number, Seconds now, Standing standing) {
  const auto found = find_room(number);
  if (!found) return false;
  LendingJob& job = job_at(number);
  job.entitled = standing == Standing::kProtected;
  job.steadfast = is_pressing(job, now);
  leave_waiting(number, now);
  job.at = *found;
  nodes_.take(job.at);
  begin_segment(number, now, standing);
  return true;
}

bool LendingCluster::reclaim_for(JobIndex number, Seconds now) {
  const std::int32_t gpus = job(number).gpus;
  LendingPool& pool = pool_of(job(number));
  if (!pool.credit.may_reclaim(now)) return false;
  // A borrower that was stopped before keeps its minimum run, so that everybody gets somewhere in the end.
  const auto borrower = [&](JobIndex other) {
    const LendingJob& job = this->job(other);
    if (job.leaving || job.standing != Standing::kBorrowing) return kSpared;
    const bool young = progress(job, now) < rules_.minimum_run;
    if (!young) return stop_harm(other, now);
    return job.preemptions > 0 || job.steadfast ? kSpared : stop_harm(other, now) * rules_.move_weight;
  };
  const auto anybody = [&](JobIndex other) {
    const LendingJob& job = this->job(other);
    if (job.leaving) return kSpared;
    if (job.standing == Standing::kBorrowing) return borrower(other);
    return job.gpus < gpus ? stop_harm(other, now) * rules_.move_weight : kSpared;
  };
  auto plan = policy::cheapest_reclaim({nodes_, occupants_, borrower}, gpus);
  if (!plan && gpus > 1) plan = policy::cheapest_reclaim({nodes_, occupants_, anybody}, gpus);
  if (!plan) return false;
  pool.credit.spend(now);
  job_at(number).spent_credit = true;
  promise(number, std::move(*plan), now, Standing::kProtected);
  if (run_ != nullptr) ++run_->reclaims;
  return true;
}

// A gang over several nodes for which enough empty nodes will never come about by themselves: it has waited
// many times what it would run, or longer than anybody should.
bool LendingCluster::is_pressing(const LendingJob& job, Seconds now) const {
  const std::int32_t guarantee = pools_[static_cast<std::size_t>(job.pool)].guarantee;
  if (job.gpus <= std::min(nodes_.gpus_per_node(), guarantee)) return false;
  const Seconds so_far = waited(job, now);
  if (so_far >= rules_.aged_takes_after) return true;
  if (has_run(job, now) >= rules_.loan_term) return false;
  return so_far >= rules_.pressing_after * std::max(history_->predict(job.kind), rules_.minimum_run);
}

std::int32_t LendingCluster::tier(const LendingJob& job, Seconds now) const {
  if (waited(job, now) >= rules_.aged_after || is_pressing(job, now)) return 0;
  return 1 + policy::terms_used(has_run(job, now), rules_);
}

// Devices that no guarantee claims at this moment.
std::int32_t LendingCluster::lendable() const {
  std::int32_t left = nodes_.capacity();
  for (const LendingPool& pool : pools_) left -= pool.protected_use;
  return left;
}

// A heap of those who would borrow; usually only the first few are looked at.
void LendingCluster::collect_borrowers(Seconds now) {
  order_.clear();
  const std::vector<std::int32_t> ranks = shares_.ranks(now);
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    for (const JobIndex waiting : pools_[i].waiting) {
      const std::int32_t place = tier(job(waiting), now);
      order_.push_back({place, place == 0 ? 0 : ranks[i + 1], waiting});
    }
  }
  std::make_heap(order_.begin(), order_.end(), std::greater<>());
}

// Takes devices of borrowers whose term is over while this job, with fewer terms behind it, waits. A gang
// that has waited long may also have small protected jobs moved out of its way.
bool LendingCluster::take_ended_loans(JobIndex number, Seconds now) {
  const LendingJob& taker = job(number);
  const bool pressing = is_pressing(taker, now);
  const bool aged = waited(taker, now) >= rules_.aged_takes_after;
  const std::int32_t terms = std::max(1, tier(taker, now));  // More than its own.
  const auto borrower = [&](JobIndex other) {
    const LendingJob& job = this->job(other);
    if (job.leaving || job.standing != Standing::kBorrowing) return kSpared;
    if (progress(job, now) < (job.steadfast ? rules_.loan_term : rules_.minimum_run)) return kSpared;
    if (pressing) return stop_harm(other, now);
    if (job.waited >= rules_.aged_after) return kSpared;
    if (aged && other > number) return stop_harm(other, now);
    return policy::terms_used(has_run(job, now), rules_) >= terms ? stop_harm(other, now) : kSpared;
  };
  const auto anybody = [&](JobIndex other) {
    const LendingJob& job = this->job(other);
    if (job.standing == Standing::kBorrowing) return borrower(other);
    if (job.leaving || job.gpus >= nodes_.gpus_per_node() || progress(job, now) < rules_.minimum_run)
      return kSpared;
    return stop_harm(other, now) * rules_.move_weight;
  };
  if (number == drained_for_) release_drained();
  auto plan = policy::cheapest_reclaim({nodes_, occupants_, borrower}, taker.gpus);
  if (!plan && pressing && now >= next_moves_ && lendable() >= taker.gpus) {
    plan = policy::cheapest_reclaim({nodes_, occupants_, anybody}, taker.gpus);
    if (plan) next_moves_ = now + rules_.moves_every;
  }
  if (number == drained_for_ && !plan) hold_drained();
  if (!plan || (!pressing && !losses_.allows(plan->harm, now))) return false;
  if (run_ != nullptr) run_->loan_ends += static_cast<std::int64_t>(plan->victims.size());
  job_at(number).steadfast = pressing;
  promise(number, std::move(*plan), now, Standing::kBorrowing);
  return true;
}

policy::Reservation LendingCluster::reserve_for(JobIndex head, Seconds now) {
  releases_.clear();
  for (const LendingPool& pool : pools_) {
    for (const auto* list : {&pool.protected_jobs, &pool.borrowing}) {
      for (const JobIndex running : *list) {
        const LendingJob& job = this->job(running);
        releases_.push_back({policy::expected_end(job.started, job.predicted - job.saved, now), job.gpus});
      }
    }
  }
  return policy::reserve(job(head).gpus, nodes_.idle(), releases_, now);
}

void LendingCluster::borrow_phase(Seconds now) {
  if (!anyone_waits()) return;
  collect_borrowers(now);
  auto end = order_.end();
  const auto pop = [&] {
    std::pop_heap(order_.begin(), end, std::greater<>());
    return (--end)->job;
  };
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  // What fails for n devices fails for more, and for those further back, who may take less.
  std::int32_t too_big = kNone, too_big_to_take = kNone, too_big_to_press = kNone;
  std::optional<policy::BackfillGate> gate;
  while (end != order_.begin()) {
    const JobIndex next = pop();
    const std::int32_t gpus = job(next).gpus;
    const Seconds predicted = history_->predict(job(next).kind);
    if ((nodes_.idle() > 0 || next == drained_for_) && (gpus < too_big || next == drained_for_) &&
        (!gate || gate->admits(gpus, predicted))) {
      if (start_at_once(next, now, Standing::kBorrowing)) {
        if (gate) gate->use(gpus, predicted);
        continue;
      }
      too_big = gpus;
    }
    std::int32_t& limit = is_pressing(job(next), now) ? too_big_to_press : too_big_to_take;
    if (gpus < limit) {
      if (take_ended_loans(next, now)) continue;
      limit = gpus;
    }
    if (is_pressing(job(next), now)) drain_nodes_for(next, now);
    if (!gate && nodes_.idle() > 0) gate.emplace(reserve_for(next, now), now);
    if (too_big_to_take == 1 && nodes_.idle() <= 0) return;
  }
}

}  // namespace tranche::sim
