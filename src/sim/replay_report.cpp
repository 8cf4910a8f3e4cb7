// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_report.hpp"

#include <algorithm>

#include "sim/html_page.hpp"

namespace tranche::sim {
namespace {

struct Waits {
  std::vector<Seconds> sorted;
  double wait_sum = 0;
  double completion_sum = 0;
  std::int64_t impossible = 0;

  void add(const TraceJob& job, const JobOutcome& outcome) {
    if (outcome.impossible || outcome.end < 0) {
      ++impossible;
      return;
    }
    sorted.push_back(outcome.wait);
    wait_sum += static_cast<double>(outcome.wait);
    completion_sum += static_cast<double>(outcome.end - job.submit);
  }
  void sort() { std::sort(sorted.begin(), sorted.end()); }
  [[nodiscard]] double mean(double sum) const {
    return sorted.empty() ? 0 : sum / static_cast<double>(sorted.size());
  }
};

PoolReport pool_report(const TracePool& pool, std::int32_t gpus_per_node, Waits& waits) {
  waits.sort();
  PoolReport report;
  report.pool = pool.name;
  report.gpus = pool.nodes * gpus_per_node;
  report.jobs = static_cast<std::int64_t>(waits.sorted.size()) + waits.impossible;
  report.never_able_to_run = waits.impossible;
  report.mean_wait_seconds = waits.mean(waits.wait_sum);
  report.mean_completion_seconds = waits.mean(waits.completion_sum);
  report.p95_wait_seconds = quantile_of_sorted(waits.sorted, 0.95);
  report.max_wait_seconds = quantile_of_sorted(waits.sorted, 1);
  return report;
}

void add_entitled(const ReplayTrace& trace, const ReplayRun& run, ReplayReport& report) {
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const JobOutcome& outcome = run.outcomes[i];
    if (!outcome.entitled_at_submit) continue;
    ++report.entitled_jobs;
    const Seconds waited = outcome.first_start - trace.jobs[i].submit;
    report.worst_entitled_start_seconds = std::max(report.worst_entitled_start_seconds, waited);
    if (waited > kEntitledStartWithin || outcome.first_start < 0) ++report.late_entitled_starts;
  }
}

double fairness_of(const ReplayReport& report) {
  std::vector<double> waits;
  for (const PoolReport& pool : report.by_pool)
    if (pool.jobs > 0) waits.push_back(pool.mean_wait_seconds + 60);
  return fairness_index(waits);
}

}  // namespace

void ReplayRun::note_held(GroupIndex pool, std::int32_t gpus, Seconds from, Seconds to) {
  constexpr Seconds kHour = 3600;
  if (held_by_pool.size() <= static_cast<std::size_t>(pool))
    held_by_pool.resize(static_cast<std::size_t>(pool) + 1);
  held_by_pool[static_cast<std::size_t>(pool)] += (to - from) * gpus;
  while (from < to) {
    const Seconds hour = std::max<Seconds>(from - began, 0) / kHour;
    const Seconds end = std::min(to, began + (hour + 1) * kHour);
    if (held_by_hour.size() <= static_cast<std::size_t>(hour))
      held_by_hour.resize(static_cast<std::size_t>(hour) + 1);
    held_by_hour[static_cast<std::size_t>(hour)] += (end - from) * gpus;
    from = end;
  }
}

Seconds quantile_of_sorted(const std::vector<Seconds>& sorted, double q) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))];
}

ReplayReport summarise(const ReplayTrace& trace, const ReplayRun& run) {
  ReplayReport report;
  Waits all;
  std::vector<Waits> pools(trace.pools.size());
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    all.add(trace.jobs[i], run.outcomes[i]);
    pools[static_cast<std::size_t>(trace.jobs[i].pool)].add(trace.jobs[i], run.outcomes[i]);
  }
  all.sort();
  report.jobs = static_cast<std::int64_t>(trace.jobs.size());
  report.gpus = trace.gpus();
  report.never_able_to_run = all.impossible;
  report.mean_wait_seconds = all.mean(all.wait_sum);
  report.mean_completion_seconds = all.mean(all.completion_sum);
  report.p50_wait_seconds = quantile_of_sorted(all.sorted, 0.50);
  report.p95_wait_seconds = quantile_of_sorted(all.sorted, 0.95);
  report.p99_wait_seconds = quantile_of_sorted(all.sorted, 0.99);
  report.max_wait_seconds = quantile_of_sorted(all.sorted, 1);
  const Seconds span = trace.jobs.back().submit - trace.jobs.front().submit;
  if (span > 0) {
    report.allocation_percent = 100.0 * static_cast<double>(run.busy_gpu_seconds) /
                                (static_cast<double>(span) * static_cast<double>(trace.gpus()));
  }
  report.preemptions = run.preemptions;
  report.reclaims = run.reclaims;
  report.loan_ends = run.loan_ends;
  report.moves = run.moves;
  report.lost_gpu_hours = static_cast<double>(run.lost_gpu_seconds) / 3600;
  if (run.allocated_gpu_seconds > 0) {
    report.lost_percent =
        100.0 * static_cast<double>(run.lost_gpu_seconds) / static_cast<double>(run.allocated_gpu_seconds);
  }
  add_entitled(trace, run, report);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    report.by_pool.push_back(pool_report(trace.pools[i], trace.gpus_per_node, pools[i]));
    PoolReport& pool = report.by_pool.back();
    if (i < run.held_by_pool.size()) pool.held_gpu_hours = static_cast<double>(run.held_by_pool[i]) / 3600;
    pool.guaranteed_gpu_hours = static_cast<double>(pool.gpus) * static_cast<double>(span) / 3600;
    report.held_gpu_hours += pool.held_gpu_hours;
  }
  report.fairness_index = fairness_of(report);
  return report;
}

}  // namespace tranche::sim
