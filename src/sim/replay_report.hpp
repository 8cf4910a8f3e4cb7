// SPDX-License-Identifier: Apache-2.0
#pragma once
// What came of a replay: per job when it started and ended, and the figures drawn from that.
//
// Wait is all time a job was ready and did not run, after every preemption too. Lost work is device time that
// was held without adding to the result: what was redone, and restarts.
#include <cstdint>
#include <string>
#include <vector>

#include "sim/replay_trace.hpp"

namespace tranche::sim {

struct JobOutcome {
  Seconds first_start = -1;  // -1: never started.
  Seconds end = -1;
  Seconds wait = 0;
  std::int32_t preemptions = 0;
  bool impossible = false;          // Larger than anything it could ever be given.
  bool entitled_at_submit = false;  // Within its pool's guarantee when submitted.
};

struct ReplayRun {
  std::vector<JobOutcome> outcomes;
  std::int64_t busy_gpu_seconds = 0;       // Until the last submission.
  std::int64_t allocated_gpu_seconds = 0;  // Over the whole run.
  std::int64_t lost_gpu_seconds = 0;
  std::int64_t preemptions = 0;
  std::int64_t reclaims = 0;   // Starts under a guarantee that took devices back.
  std::int64_t loan_ends = 0;  // Borrowers whose term was over and who gave way to others.
  std::int64_t moves = 0;      // Protected jobs moved to make room for a gang.
  std::int64_t passes = 0;
  Seconds began = 0;                         // The first submission.
  std::vector<std::int64_t> held_by_hour{};  // GPU-seconds, since then.
  std::vector<std::int64_t> held_by_pool{};

  // A job had so many devices from then to then.
  void note_held(GroupIndex pool, std::int32_t gpus, Seconds from, Seconds to);
};

struct PoolReport {
  std::string pool;
  std::int32_t gpus = 0;
  std::int64_t jobs = 0;
  std::int64_t never_able_to_run = 0;
  double mean_wait_seconds = 0;
  Seconds p95_wait_seconds = 0;
  Seconds max_wait_seconds = 0;
  double mean_completion_seconds = 0;
  double held_gpu_hours = 0;
  double guaranteed_gpu_hours = 0;  // Until the last submission.
};

struct ReplayReport {
  std::int64_t jobs = 0;
  std::int32_t gpus = 0;
  std::int64_t never_able_to_run = 0;
  double mean_wait_seconds = 0;
  Seconds p50_wait_seconds = 0;
  Seconds p95_wait_seconds = 0;
  Seconds p99_wait_seconds = 0;
  Seconds max_wait_seconds = 0;
  double mean_completion_seconds = 0;
  double allocation_percent = 0;
  std::int64_t preemptions = 0;
  std::int64_t reclaims = 0;
  std::int64_t loan_ends = 0;
  std::int64_t moves = 0;
  double lost_gpu_hours = 0;
  double lost_percent = 0;  // Of all device time held.
  std::int64_t entitled_jobs = 0;
  std::int64_t late_entitled_starts = 0;  // Later than kEntitledStartWithin.
  Seconds worst_entitled_start_seconds = 0;
  double held_gpu_hours = 0;
  double fairness_index = 1;  // Of mean waits between pools, each with a minute added (Jain).
  std::vector<PoolReport> by_pool;
};

constexpr Seconds kEntitledStartWithin = 60;

ReplayReport summarise(const ReplayTrace& trace, const ReplayRun& run);

// Value at floor(q * (n - 1)) of the sorted values; zero when there are none.
Seconds quantile_of_sorted(const std::vector<Seconds>& sorted, double q);

}  // namespace tranche::sim
