// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.hpp"

#include "sim/json_text.hpp"
#include "sim/replay_engine.hpp"

namespace tranche::sim {

std::optional<ReplayMode> parse_replay_mode(std::string_view name) {
  for (const ReplayMode mode :
       {ReplayMode::kWalls, ReplayMode::kPool, ReplayMode::kLending, ReplayMode::kEngine}) {
    if (replay_mode_name(mode) == name) return mode;
  }
  return std::nullopt;
}

std::string_view replay_mode_name(ReplayMode mode) {
  switch (mode) {
    case ReplayMode::kWalls:
      return "walls";
    case ReplayMode::kPool:
      return "pool";
    case ReplayMode::kEngine:
      return "engine";
    case ReplayMode::kLending:
      break;
  }
  return "lending";
}

ReplayRun replay(const ReplayTrace& trace, const ReplayOptions& options) {
  if (options.mode == ReplayMode::kEngine) return replay_engine(trace, options);
  if (options.mode == ReplayMode::kLending) {
    LendingOptions lending;
    lending.rules = options.rules;
    lending.progress = options.progress;
    return replay_lending(trace, lending);
  }
  QueueOptions queue;
  queue.walls = options.mode == ReplayMode::kWalls ? Walls::kPerPool : Walls::kNone;
  queue.rule = options.rule;
  queue.durations = options.durations;
  queue.progress = options.progress;
  return replay_queue(trace, queue);
}

std::string replay_json(const ReplayReport& report, ReplayMode mode) {
  JsonText json;
  json.open('{');
  json.field("simulated", true);
  json.field("mode", replay_mode_name(mode));
  json.field("jobs", report.jobs);
  json.field("gpus", report.gpus);
  json.field("mean_wait_seconds", report.mean_wait_seconds);
  json.field("p50_wait_seconds", report.p50_wait_seconds);
  json.field("p95_wait_seconds", report.p95_wait_seconds);
  json.field("p99_wait_seconds", report.p99_wait_seconds);
  json.field("max_wait_seconds", report.max_wait_seconds);
  json.field("mean_completion_seconds", report.mean_completion_seconds);
  json.field("allocation_percent", report.allocation_percent);
  json.field("never_able_to_run", report.never_able_to_run);
  json.field("preemptions", report.preemptions);
  json.field("reclaims", report.reclaims);
  json.field("loan_ends", report.loan_ends);
  json.field("moves", report.moves);
  json.field("lost_gpu_hours", report.lost_gpu_hours);
  json.field("lost_percent", report.lost_percent);
  json.field("entitled_jobs", report.entitled_jobs);
  json.field("late_entitled_starts", report.late_entitled_starts);
  json.field("worst_entitled_start_seconds", report.worst_entitled_start_seconds);
  json.field("held_gpu_hours", report.held_gpu_hours);
  json.field("fairness_index", report.fairness_index);
  json.key("by_pool");
  json.open('[');
  for (const PoolReport& pool : report.by_pool) {
    json.open('{');
    json.field("pool", pool.pool);
    json.field("gpus", pool.gpus);
    json.field("jobs", pool.jobs);
    json.field("never_able_to_run", pool.never_able_to_run);
    json.field("mean_wait_seconds", pool.mean_wait_seconds);
    json.field("p95_wait_seconds", pool.p95_wait_seconds);
    json.field("max_wait_seconds", pool.max_wait_seconds);
    json.field("mean_completion_seconds", pool.mean_completion_seconds);
    json.field("held_gpu_hours", pool.held_gpu_hours);
    json.field("guaranteed_gpu_hours", pool.guaranteed_gpu_hours);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  return json.text();
}

}  // namespace tranche::sim
