// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_forecast.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "policy/forecast.hpp"
#include "sim/json_text.hpp"

namespace tranche::sim {
namespace {

using policy::ForecastRecord;
using policy::StartForecast;

// One copy of the cluster, run until the asked-for job starts. Returns its wait.
Seconds run_ahead(
    LendingCluster fork, JobIndex asked, Seconds now, const ForecastOptions& options, std::int32_t run) {
  for (std::size_t i = 0; i < fork.jobs(); ++i) {
    const auto number = static_cast<JobIndex>(i);
    const LendingJob& job = fork.job(number);
    const double q = policy::draw_quantile(options.seed, run, options.runs, job.kind, job.trace_job);
    fork.set_total_work(number, fork.history().draw(job.kind, fork.has_run(job, now), q), now);
  }
  Seconds at = now, last_pass = now;
  const auto waits = [&] {
    const Standing standing = fork.job(asked).standing;
    return standing == Standing::kWaiting || standing == Standing::kStarting;
  };
  for (std::int32_t step = 0; waits() && step < options.events_max; ++step) {
    const Seconds next = std::min(fork.next_event(), last_pass + 10 * options.rules.wake_every);
    if (next > now + options.look_ahead) break;
    at = next;
    fork.advance_to(at);
    if (!waits()) break;
    fork.pass(at);
    last_pass = at;
  }
  return at - now;
}

class Forecaster {
 public:
  Forecaster(const ReplayTrace& trace, const ForecastOptions& options)
      : options_(options), records_(trace.pools.size()) {}

  void after_pass(const LendingCluster& cluster, Seconds now) {
    for (; seen_ < cluster.jobs(); ++seen_) {
      const auto number = static_cast<JobIndex>(seen_);
      const Standing standing = cluster.job(number).standing;
      // One that starts after the grace needs no forecast: its start is known.
      if (standing == Standing::kWaiting) ask(cluster, number, now);
    }
    for (std::size_t i = 0; i < open_.size();) {
      const LendingJob& job = cluster.job(open_[i].job);
      if (job.standing == Standing::kWaiting || job.standing == Standing::kStarting) {
        ++i;
        continue;
      }
      close(open_[i], job.standing == Standing::kDone ? now : job.started);
      open_[i] = open_.back();
      open_.pop_back();
    }
  }

  [[nodiscard]] ForecastReport report() {
    ForecastReport made;
    made.forecasts = static_cast<std::int64_t>(errors_.size());
    if (errors_.empty()) return made;
    std::sort(errors_.begin(), errors_.end());
    std::sort(times_.begin(), times_.end());
    made.median_error_seconds = static_cast<double>(quantile_of_sorted(errors_, 0.5));
    made.started_by_p90_percent = 100.0 * static_cast<double>(in_time_) / static_cast<double>(errors_.size());
    for (const auto& [day, counts] : days_) {
      if (counts.second < 50) continue;
      made.worst_day_percent =
          std::min(made.worst_day_percent,
                   100.0 * static_cast<double>(counts.first) / static_cast<double>(counts.second));
    }
    for (const double time : times_) made.mean_milliseconds += time / static_cast<double>(times_.size());
    made.p99_milliseconds = times_[static_cast<std::size_t>(0.99 * static_cast<double>(times_.size() - 1))];
    return made;
  }

 private:
  struct Open {
    JobIndex job = 0;
    GroupIndex pool = 0;
    Seconds asked_at = 0;
    StartForecast raw;  // Before scaling: what the record learns from.
    StartForecast said;
  };

  void ask(const LendingCluster& cluster, JobIndex number, Seconds now) {
    const double began = options_.milliseconds ? options_.milliseconds() : 0;
    const GroupIndex pool = cluster.job(number).pool;
    JobIndex asked = number;
    const LendingCluster base = cluster.compact_fork(asked);
    std::vector<Seconds> waits;
    for (std::int32_t run = 0; run < options_.runs; ++run)
      waits.push_back(run_ahead(base, asked, now, options_, run));
    const StartForecast raw = policy::forecast_from_runs(std::move(waits));
    overdue_.clear();
    for (const Open& open : open_) {
      if (open.pool == pool) overdue_.push_back(policy::lateness_ratio(open.raw.p90, now - open.asked_at));
    }
    const double factor = records_[static_cast<std::size_t>(pool)].scale(overdue_);
    open_.push_back({number, pool, now, raw, policy::scaled(raw, factor)});
    times_.push_back(options_.milliseconds ? options_.milliseconds() - began : 0);
  }

  void close(const Open& open, Seconds started) {
    const Seconds really = started - open.asked_at;
    records_[static_cast<std::size_t>(open.pool)].resolve(open.raw, really);
    errors_.push_back(std::abs(open.said.p50 - really));
    const bool in_time = really <= open.said.p90;
    in_time_ += in_time ? 1 : 0;
    auto& day = days_[open.asked_at / 86400];
    day.first += in_time ? 1 : 0;
    ++day.second;
  }

  const ForecastOptions& options_;
  std::size_t seen_ = 0;
  std::vector<ForecastRecord> records_;
  std::vector<Open> open_;
  std::vector<double> overdue_;
  std::vector<Seconds> errors_;
  std::vector<double> times_;
  std::int64_t in_time_ = 0;
  std::map<Seconds, std::pair<std::int64_t, std::int64_t>> days_;
};

}  // namespace

std::string forecast_json(const ForecastReport& report) {
  JsonText json;
  json.open('{');
  json.field("simulated", true);
  json.field("forecasts", report.forecasts);
  json.field("started_by_p90_percent", report.started_by_p90_percent);
  json.field("worst_day_percent", report.worst_day_percent);
  json.field("median_error_seconds", report.median_error_seconds);
  json.field("mean_milliseconds", report.mean_milliseconds);
  json.field("p99_milliseconds", report.p99_milliseconds);
  json.close('}');
  return json.text();
}

ForecastRun replay_with_forecasts(const ReplayTrace& trace, const ForecastOptions& options) {
  Forecaster forecaster(trace, options);
  LendingOptions lending;
  lending.rules = options.rules;
  lending.progress = options.progress;
  lending.after_pass = [&](const LendingCluster& cluster, Seconds now) {
    forecaster.after_pass(cluster, now);
  };
  ForecastRun made;
  made.run = replay_lending(trace, lending);
  made.report = forecaster.report();
  return made;
}

}  // namespace tranche::sim
