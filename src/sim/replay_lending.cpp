// SPDX-License-Identifier: Apache-2.0
// Events of a cluster under lending: what happens to one job, and the run over a whole trace.
#include "sim/replay_lending.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tranche::sim {
namespace {

void insert_sorted(std::vector<JobIndex>& jobs, JobIndex job) {
  jobs.insert(std::lower_bound(jobs.begin(), jobs.end(), job), job);
}

void erase_sorted(std::vector<JobIndex>& jobs, JobIndex job) {
  const auto found = std::lower_bound(jobs.begin(), jobs.end(), job);
  TRANCHE_CHECK(found != jobs.end() && *found == job);
  jobs.erase(found);
}

policy::ShareNode share_of(GroupIndex pool) {
  return pool + 1;  // The root comes first.
}

}  // namespace

LendingCluster::LendingCluster(const ReplayTrace& trace, const policy::LendingRules& rules)
    : rules_(rules),
      nodes_(trace.nodes(), trace.gpus_per_node),
      occupants_(static_cast<std::size_t>(trace.nodes())),
      history_(std::make_shared<policy::RuntimeHistory>()),
      shares_(rules.usage_half_life),
      losses_(rules.loss_permyriad) {
  for (const TracePool& pool : trace.pools) {
    LendingPool& added = pools_.emplace_back();
    added.guarantee = pool.nodes * trace.gpus_per_node;
    added.credit = policy::ReclaimCredit(rules.reclaim_credit, rules.reclaim_refill);
    shares_.add(policy::FairShareTree::kRoot, added.guarantee);
  }
}

void LendingCluster::keep_outcomes(std::shared_ptr<ReplayRun> run, Seconds horizon) {
  run_ = std::move(run);
  horizon_ = horizon;
}

JobIndex LendingCluster::submit(const TraceJob& job, JobIndex trace_job, Seconds now) {
  if (job.gpus > nodes_.capacity()) return -1;
  const auto number = static_cast<JobIndex>(jobs_.size());
  LendingJob& added = jobs_.emplace_back();
  added.submit = now;
  added.ready = now;
  added.gpus = job.gpus;
  added.pool = job.pool;
  added.kind = history_->kind(job.pool, job.gpus);
  added.trace_job = trace_job;
  added.remaining = job.duration;
  pool_of(added).waiting.push_back(number);
  pool_of(added).changed = true;
  return number;
}

Seconds LendingCluster::next_event() const {
  return events_.empty() ? std::numeric_limits<Seconds>::max() : events_.top().at;
}

bool LendingCluster::anyone_waits() const {
  return std::any_of(
      pools_.begin(), pools_.end(), [](const LendingPool& pool) { return !pool.waiting.empty(); });
}

void LendingCluster::advance_to(Seconds now) {
  while (!events_.empty() && events_.top().at <= now) {
    const Event event = events_.top();
    events_.pop();
    if (job_at(event.job).epoch != event.epoch) continue;
    switch (event.kind) {
      case EventKind::kEnd:
        finish(event.job, event.at);
        break;
      case EventKind::kStop:
        stop(event.job, event.at);
        break;
      case EventKind::kStart: {
        LendingJob& job = job_at(event.job);
        begin_segment(event.job, event.at, job.entitled ? Standing::kProtected : Standing::kBorrowing);
        break;
      }
    }
  }
}

Seconds LendingCluster::progress(const LendingJob& job, Seconds now) const {
  const Seconds overhead = job.preemptions > 0 ? rules_.restart : 0;
  return std::max<Seconds>(0, now - job.started - overhead);
}

Seconds LendingCluster::has_run(const LendingJob& job, Seconds now) const {
  const bool runs = job.standing == Standing::kBorrowing || job.standing == Standing::kProtected;
  return job.saved + (runs ? progress(job, now) : 0);
}

void LendingCluster::occupy(JobIndex number) {
  for (const policy::NodeShare& share : job_at(number).at) {
    occupants_[static_cast<std::size_t>(share.node)].push_back({number, share.gpus});
  }
}

void LendingCluster::vacate(JobIndex number) {
  for (const policy::NodeShare& share : job_at(number).at) {
    auto& here = occupants_[static_cast<std::size_t>(share.node)];
    here.erase(
        std::find_if(here.begin(), here.end(), [&](const auto& occupant) { return occupant.job == number; }));
  }
  nodes_.give(job_at(number).at);
  job_at(number).at.clear();
}

// The devices are already taken off the pool of nodes; from now on they are used.
void LendingCluster::begin_segment(JobIndex number, Seconds now, Standing standing) {
  LendingJob& job = job_at(number);
  LendingPool& pool = pool_of(job);
  job.standing = standing;
  job.waited += now - job.ready;
  job.started = now;
  job.predicted = history_->predict(job.kind);
  ++job.epoch;
  occupy(number);
  losses_.change_rate(job.gpus, now);
  const Seconds overhead = job.preemptions > 0 ? rules_.restart : 0;
  events_.push({now + overhead + job.remaining, EventKind::kEnd, number, job.epoch});
  if (standing == Standing::kBorrowing) {
    insert_sorted(pool.borrowing, number);
    shares_.change_rate(share_of(job.pool), job.gpus, now);
  } else {
    insert_sorted(pool.protected_jobs, number);
  }
  if (run_ != nullptr) {
    JobOutcome& outcome = run_->outcomes[static_cast<std::size_t>(job.trace_job)];
    if (outcome.first_start < 0) outcome.first_start = now;
  }
}

void LendingCluster::end_segment(JobIndex number, Seconds now) {
  LendingJob& job = job_at(number);
  LendingPool& pool = pool_of(job);
  vacate(number);
  losses_.change_rate(-job.gpus, now);
  ++job.epoch;
  job.leaving = false;
  pool.changed = true;
  if (job.standing == Standing::kBorrowing) {
    erase_sorted(pool.borrowing, number);
    shares_.change_rate(share_of(job.pool), -job.gpus, now);
  } else {
    erase_sorted(pool.protected_jobs, number);
    pool.protected_use -= job.gpus;
  }
  if (job.spent_credit && now - job.started >= rules_.minimum_run) pool.credit.give_back(now);
  job.spent_credit = false;
  if (run_ != nullptr) {
    run_->allocated_gpu_seconds += (now - job.started) * job.gpus;
    run_->busy_gpu_seconds += std::max<Seconds>(0, std::min(now, horizon_) - job.started) * job.gpus;
    run_->note_held(job.pool, job.gpus, job.started, now);
  }
}

void LendingCluster::finish(JobIndex number, Seconds now) {
  end_segment(number, now);
  LendingJob& job = job_at(number);
  job.standing = Standing::kDone;
  while (first_open_ < jobs_.size() && jobs_[first_open_].standing == Standing::kDone) ++first_open_;
  const Seconds overhead = job.preemptions > 0 ? rules_.restart : 0;
  losses_.lose(overhead * job.gpus);
  if (run_ == nullptr) return;
  run_->lost_gpu_seconds += overhead * job.gpus;
  history_->finished(job.kind, job.saved + job.remaining);
  JobOutcome& outcome = run_->outcomes[static_cast<std::size_t>(job.trace_job)];
  outcome.end = now;
  outcome.wait = job.waited;
  outcome.preemptions = job.preemptions;
}

// Preempted: back to the queue at its old place, with what its last checkpoint holds.
void LendingCluster::stop(JobIndex number, Seconds now) {
  LendingJob& job = job_at(number);
  const Seconds safe = progress(job, now) / rules_.checkpoint_every * rules_.checkpoint_every;
  const Seconds held = now - job.started;
  losses_.lose((held - safe) * job.gpus);
  if (run_ != nullptr) {
    run_->lost_gpu_seconds += (held - safe) * job.gpus;
    ++run_->preemptions;
    if (job.standing == Standing::kProtected) ++run_->moves;
  }
  end_segment(number, now);
  job.saved += safe;
  job.remaining -= safe;
  ++job.preemptions;
  job.standing = Standing::kWaiting;
  job.ready = now;
  insert_sorted(pool_of(job).waiting, number);
}

void LendingCluster::leave_waiting(JobIndex number, Seconds now) {
  LendingJob& job = job_at(number);
  LendingPool& pool = pool_of(job);
  erase_sorted(pool.waiting, number);
  if (!job.entitled) return;
  pool.protected_use += job.gpus;
  if (run_ != nullptr && now == job.submit) {
    run_->outcomes[static_cast<std::size_t>(job.trace_job)].entitled_at_submit = true;
  }
}

void LendingCluster::protect_in_place(JobIndex number, Seconds now) {
  LendingJob& job = job_at(number);
  LendingPool& pool = pool_of(job);
  erase_sorted(pool.borrowing, number);
  insert_sorted(pool.protected_jobs, number);
  shares_.change_rate(share_of(job.pool), -job.gpus, now);
  job.standing = Standing::kProtected;
  pool.protected_use += job.gpus;
}

// Victims get their notice; the devices are promised at once, so nobody else takes them in between.
void LendingCluster::promise(JobIndex number, policy::ReclaimPlan plan, Seconds now, Standing standing) {
  LendingJob& job = job_at(number);
  job.entitled = standing == Standing::kProtected;
  leave_waiting(number, now);
  job.standing = Standing::kStarting;
  job.at = std::move(plan.placement);
  nodes_.take(job.at);
  const Seconds at = now + rules_.grace;
  for (const JobIndex victim : plan.victims) {
    job_at(victim).leaving = true;
    events_.push({at, EventKind::kStop, victim, job_at(victim).epoch});
  }
  events_.push({at, EventKind::kStart, number, job.epoch});
}

void LendingCluster::set_total_work(JobIndex number, Seconds total, Seconds now) {
  LendingJob& job = job_at(number);
  const Seconds done = has_run(job, now);
  job.remaining = std::max<Seconds>(1, total - job.saved);
  if (job.standing != Standing::kBorrowing && job.standing != Standing::kProtected) return;
  const Seconds overhead = job.preemptions > 0 ? rules_.restart : 0;
  const Seconds left = std::max<Seconds>(1, total - done);
  const Seconds ahead = std::max(now, job.started + overhead) + left;
  job.remaining = ahead - job.started - overhead;
  events_.push({ahead, EventKind::kEnd, number, job.epoch});
}

ReplayRun replay_lending(const ReplayTrace& trace, const LendingOptions& options) {
  LendingCluster cluster(trace, options.rules);
  const auto run = std::make_shared<ReplayRun>();
  run->outcomes.resize(trace.jobs.size());
  run->began = trace.jobs.front().submit;
  cluster.keep_outcomes(run, trace.jobs.back().submit);
  std::size_t next = 0;
  Seconds last_pass = trace.jobs.front().submit;
  while (next < trace.jobs.size() || cluster.next_event() != std::numeric_limits<Seconds>::max()) {
    Seconds now = cluster.next_event();
    if (next < trace.jobs.size()) now = std::min(now, trace.jobs[next].submit);
    if (cluster.anyone_waits()) now = std::min(now, last_pass + options.rules.wake_every);
    cluster.advance_to(now);
    for (; next < trace.jobs.size() && trace.jobs[next].submit == now; ++next) {
      if (cluster.submit(trace.jobs[next], static_cast<JobIndex>(next), now) < 0)
        run->outcomes[next].impossible = true;
    }
    cluster.pass(now);
    last_pass = now;
    if (options.after_pass) options.after_pass(cluster, now);
    if (options.progress && run->passes % 4096 == 0) options.progress(now);
  }
  return std::move(*run);
}

}  // namespace tranche::sim
