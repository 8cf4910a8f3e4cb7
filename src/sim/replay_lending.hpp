// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cluster under lending, moved from event to event: the same policies the engine uses, on simulated time.
//
// Copying a LendingCluster forks it: forecasts run copies ahead with other durations.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "policy/backfill.hpp"
#include "policy/fair_share.hpp"
#include "policy/lending.hpp"
#include "policy/reclaim.hpp"
#include "policy/runtime_estimate.hpp"
#include "sim/replay_report.hpp"

namespace tranche::sim {

enum class Standing : std::uint8_t { kWaiting, kStarting, kBorrowing, kProtected, kDone };

struct LendingJob {
  Seconds submit = 0;
  std::int32_t gpus = 0;
  GroupIndex pool = 0;
  policy::RuntimeKind kind = 0;
  JobIndex trace_job = 0;  // Its number in the trace; a fork renumbers jobs, this stays.
  Standing standing = Standing::kWaiting;
  bool entitled = false;      // Starting under the guarantee.
  bool leaving = false;       // Told to stop; goes when the grace is over.
  bool spent_credit = false;  // This segment began with a reclaim.
  bool steadfast = false;     // It pressed: having got in, it is left alone for a whole term.
  std::int32_t preemptions = 0;
  std::uint32_t epoch = 0;  // Events of earlier segments are void.
  Seconds ready = 0;        // Waiting since.
  Seconds waited = 0;       // Before that.
  Seconds started = 0;      // Of this segment.
  Seconds saved = 0;        // Work safe in a checkpoint.
  Seconds predicted = 0;    // Of the whole job, made when this segment began.
  Seconds remaining = 0;    // True work left: known to the simulator, never to the policy.
  policy::GangPlacement at;
};

struct LendingPool {
  std::int32_t guarantee = 0;
  std::int32_t protected_use = 0;  // Running and promised.
  std::vector<JobIndex> waiting;   // Each list in the order of submission.
  std::vector<JobIndex> borrowing;
  std::vector<JobIndex> protected_jobs;
  policy::ReclaimCredit credit;
  bool changed = true;
};

class LendingCluster {
 public:
  LendingCluster(const ReplayTrace& trace, const policy::LendingRules& rules);

  JobIndex submit(const TraceJob& job, JobIndex trace_job, Seconds now);  // -1: larger than the cluster.
  [[nodiscard]] Seconds next_event() const;  // Nothing ahead: the largest Seconds.
  void advance_to(Seconds now);              // Events up to and at `now`, without a pass.
  void pass(Seconds now);

  [[nodiscard]] const LendingJob& job(JobIndex number) const {
    return jobs_[static_cast<std::size_t>(number)];
  }
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] const policy::RuntimeHistory& history() const { return *history_; }
  [[nodiscard]] const std::vector<LendingPool>& pools() const { return pools_; }
  [[nodiscard]] const policy::NodePool& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<std::vector<policy::Occupant>>& occupants() const { return occupants_; }
  [[nodiscard]] bool anyone_waits() const;

  // A copy with only the jobs that are not done, renumbered in the same order; `asked` is renumbered too.
  [[nodiscard]] LendingCluster compact_fork(JobIndex& asked) const;
  // In a fork: what a job has left is decided anew (a forecast's draw).
  void set_total_work(JobIndex number, Seconds total, Seconds now);
  [[nodiscard]] Seconds has_run(const LendingJob& job, Seconds now) const;

  ReplayRun& run() { return *run_; }
  void keep_outcomes(std::shared_ptr<ReplayRun> run, Seconds horizon);

 private:
  enum class EventKind : std::uint8_t { kEnd, kStop, kStart };
  struct Event {
    Seconds at = 0;
    EventKind kind = EventKind::kEnd;
    JobIndex job = 0;
    std::uint32_t epoch = 0;
    auto operator<=>(const Event&) const = default;
  };

  LendingCluster() = default;  // For compact_fork alone.
  LendingJob& job_at(JobIndex number) { return jobs_[static_cast<std::size_t>(number)]; }
  LendingPool& pool_of(const LendingJob& job) { return pools_[static_cast<std::size_t>(job.pool)]; }

  // Changes of one job's state (replay_lending.cpp).
  void begin_segment(JobIndex number, Seconds now, Standing standing);
  void end_segment(JobIndex number, Seconds now);
  void finish(JobIndex number, Seconds now);
  void stop(JobIndex number, Seconds now);
  void occupy(JobIndex number);
  void vacate(JobIndex number);
  void protect_in_place(JobIndex number, Seconds now);
  void promise(JobIndex number, policy::ReclaimPlan plan, Seconds now, Standing standing);
  void leave_waiting(JobIndex number, Seconds now);
  [[nodiscard]] Seconds progress(const LendingJob& job, Seconds now) const;

  // The phases of a pass (replay_lending_pass.cpp).
  void guarantee_phase(GroupIndex pool, Seconds now);
  bool start_entitled(JobIndex number, Seconds now);
  void borrow_phase(Seconds now);
  void collect_borrowers(Seconds now);
  bool start_at_once(JobIndex number, Seconds now, Standing standing);
  bool reclaim_for(JobIndex number, Seconds now);
  bool take_ended_loans(JobIndex number, Seconds now);
  // Nodes kept clear for a pressing gang (replay_lending_drain.cpp).
  void drain_nodes_for(JobIndex number, Seconds now);
  void hold_drained();
  void release_drained();
  [[nodiscard]] std::optional<policy::GangPlacement> find_room(JobIndex number);
  [[nodiscard]] policy::Reservation reserve_for(JobIndex head, Seconds now);
  [[nodiscard]] policy::Harm stop_harm(JobIndex number, Seconds now) const;
  [[nodiscard]] Seconds waited(const LendingJob& job, Seconds now) const;
  [[nodiscard]] std::int32_t lendable() const;
  [[nodiscard]] bool is_pressing(const LendingJob& job, Seconds now) const;
  [[nodiscard]] std::int32_t tier(const LendingJob& job, Seconds now) const;

  policy::LendingRules rules_;
  policy::NodePool nodes_;
  std::vector<std::vector<policy::Occupant>> occupants_;
  std::vector<LendingJob> jobs_;
  std::size_t first_open_ = 0;  // Jobs before this one are done.
  std::vector<LendingPool> pools_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::shared_ptr<policy::RuntimeHistory> history_;  // Shared by forks, which never add to it.
  policy::FairShareTree shares_;
  std::shared_ptr<ReplayRun> run_;  // Null in a fork: nobody reads its figures.
  Seconds horizon_ = 0;
  policy::LossBudget losses_;
  JobIndex drained_for_ = -1;
  std::vector<std::int32_t> drained_;  // Nodes that take no new borrowers.
  policy::GangPlacement held_;         // What is free on them, taken off the pool of nodes during a pass.
  Seconds next_moves_ = std::numeric_limits<Seconds>::min();
  // Scratch of a pass, kept for its memory.
  std::vector<policy::Release> releases_;
  std::vector<policy::GuaranteeClaimant> claimants_;
  std::vector<JobIndex> entitled_;
  std::vector<policy::BorrowKey> order_;
};

struct LendingOptions {
  policy::LendingRules rules{};
  std::function<void(Seconds)> progress{};
  // Called after every pass: property tests and forecasts look in here.
  std::function<void(const LendingCluster&, Seconds now)> after_pass{};
};

ReplayRun replay_lending(const ReplayTrace& trace, const LendingOptions& options);

}  // namespace tranche::sim
