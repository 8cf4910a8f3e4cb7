// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_queue.hpp"

#include <algorithm>
#include <limits>
#include <queue>

#include "policy/backfill.hpp"
#include "policy/runtime_estimate.hpp"

namespace tranche::sim {
namespace {

using policy::BackfillGate;
using policy::GangPlacement;
using policy::NodePool;
using policy::Release;
using policy::RuntimeHistory;
using policy::RuntimeKind;

struct Partition {
  NodePool nodes;
  std::vector<JobIndex> waiting;
  std::vector<JobIndex> running;
};

struct JobState {
  RuntimeKind kind = 0;
  Seconds predicted = 0;  // When it started.
  GangPlacement at;
};

struct End {
  Seconds at = 0;
  JobIndex job = 0;
  auto operator<=>(const End&) const = default;
};

class QueueReplay {
 public:
  QueueReplay(const ReplayTrace& trace, const QueueOptions& options)
      : trace_(trace), options_(options), states_(trace.jobs.size()) {
    run_.outcomes.resize(trace.jobs.size());
    if (!trace.jobs.empty()) run_.began = trace.jobs.front().submit;
    if (options.walls == Walls::kNone) {
      partitions_.push_back({NodePool(trace.nodes(), trace.gpus_per_node), {}, {}});
    } else {
      for (const TracePool& pool : trace.pools) {
        partitions_.push_back({NodePool(pool.nodes, trace.gpus_per_node), {}, {}});
      }
    }
    horizon_ = trace.jobs.back().submit;
    touched_.assign(partitions_.size(), false);
  }

  ReplayRun run() {
    std::size_t next = 0;
    while (next < trace_.jobs.size() || !ends_.empty()) {
      Seconds now = std::numeric_limits<Seconds>::max();
      if (!ends_.empty()) now = ends_.top().at;
      if (next < trace_.jobs.size()) now = std::min(now, trace_.jobs[next].submit);
      while (!ends_.empty() && ends_.top().at == now) {
        const JobIndex job = ends_.top().job;
        ends_.pop();
        finish(job, now);
      }
      while (next < trace_.jobs.size() && trace_.jobs[next].submit == now)
        submit(static_cast<JobIndex>(next++));
      for (std::size_t i = 0; i < partitions_.size(); ++i) {
        if (touched_[i]) pass(partitions_[i], now);
        touched_[i] = false;
      }
      if (options_.progress && ++run_.passes % 4096 == 0) options_.progress(now);
    }
    return std::move(run_);
  }

 private:
  static std::size_t index(JobIndex job) { return static_cast<std::size_t>(job); }
  [[nodiscard]] const TraceJob& trace_job(JobIndex job) const { return trace_.jobs[index(job)]; }
  std::size_t partition_of(JobIndex job) {
    return options_.walls == Walls::kNone ? 0 : static_cast<std::size_t>(trace_job(job).pool);
  }

  void submit(JobIndex job) {
    Partition& partition = partitions_[partition_of(job)];
    states_[index(job)].kind = history_.kind(trace_job(job).pool, trace_job(job).gpus);
    if (trace_job(job).gpus > partition.nodes.capacity()) {
      run_.outcomes[index(job)].impossible = true;
      return;
    }
    partition.waiting.push_back(job);
    touched_[partition_of(job)] = true;
  }

  [[nodiscard]] Seconds predicted(JobIndex job) const {
    if (options_.durations == Durations::kTrue) return trace_job(job).duration;
    return history_.predict(states_[index(job)].kind);
  }

  bool try_start(Partition& partition, JobIndex job, Seconds now) {
    const auto found = partition.nodes.find(trace_job(job).gpus);
    if (!found) return false;
    JobState& state = states_[index(job)];
    state.at = *found;
    state.predicted = predicted(job);
    partition.nodes.take(state.at);
    partition.running.push_back(job);
    JobOutcome& outcome = run_.outcomes[index(job)];
    outcome.first_start = now;
    outcome.wait = now - trace_job(job).submit;
    outcome.end = now + trace_job(job).duration;
    ends_.push({outcome.end, job});
    return true;
  }

  void finish(JobIndex job, Seconds now) {
    const std::size_t where = partition_of(job);
    Partition& partition = partitions_[where];
    touched_[where] = true;
    partition.nodes.give(states_[index(job)].at);
    partition.running.erase(std::find(partition.running.begin(), partition.running.end(), job));
    const TraceJob& known = trace_job(job);
    const Seconds started = run_.outcomes[index(job)].first_start;
    run_.busy_gpu_seconds += std::max<Seconds>(0, std::min(now, horizon_) - started) * known.gpus;
    run_.allocated_gpu_seconds += known.duration * known.gpus;
    run_.note_held(known.pool, known.gpus, started, now);
    history_.finished(states_[index(job)].kind, known.duration);
  }

  policy::Reservation reserve_for(const Partition& partition, JobIndex head, Seconds now) {
    releases_.clear();
    for (const JobIndex job : partition.running) {
      const Seconds started = run_.outcomes[index(job)].first_start;
      const Seconds at = options_.durations == Durations::kTrue
                             ? run_.outcomes[index(job)].end
                             : policy::expected_end(started, states_[index(job)].predicted, now);
      releases_.push_back({at, trace_job(job).gpus});
    }
    return policy::reserve(trace_job(head).gpus, partition.nodes.idle(), releases_, now);
  }

  void pass(Partition& partition, Seconds now) {
    auto& waiting = partition.waiting;
    std::size_t i = 0, keep = 0;
    while (i < waiting.size() && try_start(partition, waiting[i], now)) ++i;
    if (i < waiting.size() && options_.rule == QueueRule::kEasy && partition.nodes.idle() > 0) {
      BackfillGate gate(reserve_for(partition, waiting[i], now), now);
      waiting[keep++] = waiting[i++];
      std::int32_t too_big = std::numeric_limits<std::int32_t>::max();  // What fails for n fails for more.
      for (; i < waiting.size() && partition.nodes.idle() > 0; ++i) {
        const std::int32_t gpus = trace_job(waiting[i]).gpus;
        const Seconds length = predicted(waiting[i]);
        bool started = false;
        if (gpus < too_big && gate.admits(gpus, length)) {
          started = try_start(partition, waiting[i], now);
          started ? gate.use(gpus, length) : void(too_big = gpus);
        }
        if (!started) waiting[keep++] = waiting[i];
      }
    }
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(keep),
                  waiting.begin() + static_cast<std::ptrdiff_t>(i));
  }

  const ReplayTrace& trace_;
  const QueueOptions& options_;
  Seconds horizon_ = 0;
  std::vector<JobState> states_;
  std::vector<Partition> partitions_;
  std::vector<bool> touched_;
  std::vector<Release> releases_;
  RuntimeHistory history_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  ReplayRun run_;
};

}  // namespace

ReplayRun replay_queue(const ReplayTrace& trace, const QueueOptions& options) {
  return QueueReplay(trace, options).run();
}

}  // namespace tranche::sim
