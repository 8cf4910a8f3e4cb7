// SPDX-License-Identifier: Apache-2.0
#include "engine/progress.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/unit_quota.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kRateWindow = std::chrono::minutes(2);
constexpr std::size_t kVerdictsMax = 20'000;

void restart(JobProgress& progress, LeaseId lease, ProgressPoint point) {
  progress.lease = lease;
  progress.from = point;
  progress.next = point;
}

void advance(JobProgress& progress, const wire::ProgressReport& report, Instant at) {
  const ProgressPoint point{at, report.done};
  if (progress.lease != report.lease || report.done < progress.done || report.unit != progress.unit)
    restart(progress, report.lease, point);
  if (at - progress.next.at >= kRateWindow) {
    progress.from = progress.next;
    progress.next = point;
  }
  progress.unit = report.unit;
  progress.done = report.done;
  progress.total = report.total;
  progress.metrics = report.metrics;
  progress.at = at;
}

// Those that were saved last, each under its name once.
void keep_checkpoints(State& state, const ProgressNoted& event) {
  if (event.report.checkpoints.empty()) return;
  JobCheckpoints& kept = state.work.checkpoints[event.job];
  kept.job = event.job;
  for (const wire::CheckpointNote& note : event.report.checkpoints) {
    std::erase_if(kept.notes, [&](const wire::CheckpointNote& one) { return one.name == note.name; });
    kept.notes.push_back(note);
  }
  if (const auto lease = state.leases.find(event.report.lease); lease != state.leases.end())
    lease->second.checkpoint = std::max(lease->second.checkpoint, event.report.checkpoints.back().at);
  const std::size_t many = kept.notes.size() - std::min(kept.notes.size(), wire::kCheckpointsKept);
  kept.notes.erase(kept.notes.begin(), kept.notes.begin() + static_cast<std::ptrdiff_t>(many));
}

// Units that were done before by this job are not done again, however often it tells of them.
std::int64_t fresh_units(const State& state, JobId job, const wire::ProgressReport& report) {
  const auto before = state.work.progress.find(job);
  const std::int64_t best = before == state.work.progress.end() ? 0 : before->second.best;
  return std::max<std::int64_t>(report.done - best, 0);
}

}  // namespace

std::int64_t rate_milli_of(std::int64_t done, Duration took) {
  if (done <= 0 || took <= Duration{}) return 0;
  return static_cast<std::int64_t>(Int128{done} * 1'000'000'000 / took.count());
}

std::optional<Duration> time_for(std::int64_t left, std::int64_t rate_milli) {
  if (left <= 0) return Duration{};
  if (rate_milli <= 0) return std::nullopt;
  const Int128 microseconds = Int128{left} * 1'000'000'000 / rate_milli;
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 100);
  if (microseconds > Int128{kLongest.count()}) return std::nullopt;
  return Duration(static_cast<std::int64_t>(microseconds));
}

std::int64_t JobProgress::rate_milli() const {
  return rate_milli_of(done - from.done, at - from.at);
}

void note_saved(State& state, const Lease& lease) {
  if (lease.started == Instant{}) return;
  JobCheckpoints& kept = state.work.checkpoints[lease.job];
  kept.job = lease.job;
  const auto other_attempt = [&](LeaseId id) {
    const Lease* before = state.lease(id);
    return before == nullptr || before->attempt != lease.attempt;
  };
  std::erase_if(kept.saved_by, other_attempt);
  const auto later = [&](LeaseId id) { return state.lease(id)->rank > lease.rank; };
  kept.saved_by.insert(std::find_if(kept.saved_by.begin(), kept.saved_by.end(), later), lease.id);
}

Decision decide(const State& state, const Envelope& envelope, const NoteProgress& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (command.sequence != 0 && command.sequence <= node->received) return Events{};
  ProgressNoted noted{.node = node->id, .sequence = command.sequence};
  const Lease* lease = state.lease(command.report.lease);
  // A stale word is taken from the link and forgotten: what it says was said by somebody who may not.
  const bool counts = lease != nullptr && lease->node == node->id && lease->epoch == command.report.epoch &&
                      lease->live() && command.report.verdicts.size() <= kVerdictsMax;
  if (counts) {
    noted.report = command.report;
    noted.job = lease->job;
    noted.owner = lease->owner;
  }
  Events events{std::move(noted)};
  const Job* job = counts ? state.job(lease->job) : nullptr;
  const bool is_last = command.report.total > 0 && command.report.done >= command.report.total;
  if (job != nullptr && command.report.unit != WorkUnit::kNone && !is_last)
    append_unit_stops(state,
                      *job,
                      units_name(command.report.unit),
                      fresh_units(state, job->id, command.report),
                      envelope.at,
                      events);
  return events;
}

void apply(State& state, const Envelope& envelope, const ProgressNoted& event) {
  Node& node = state.nodes.at(event.node);
  node.received = std::max(node.received, event.sequence);
  if (event.job == JobId{} || !state.jobs.contains(event.job)) return;
  if (event.report.unit != WorkUnit::kNone) {
    JobProgress& progress = state.work.progress[event.job];
    progress.job = event.job;
    const bool goes_on = progress.lease == event.report.lease && progress.unit == event.report.unit;
    const Duration since = goes_on ? envelope.at - progress.at : Duration{};
    advance(progress, event.report, envelope.at);
    if (progress.done > progress.best) {
      count_units(state,
                  {.unit = units_name(progress.unit),
                   .count = progress.done - progress.best,
                   .jobs = {event.job},
                   .at = envelope.at,
                   .busy = since});
      progress.best = progress.done;
    }
  }
  keep_checkpoints(state, event);
  const auto parent = state.index.work->group_of.find(event.job);
  if (parent == state.index.work->group_of.end()) return;
  JobGroup& group = state.work.groups.at(parent->second);
  const std::int64_t before = group.counted_done(), busy_before = group.busy_microseconds;
  for (const wire::UnitVerdict& verdict : event.report.verdicts)
    take_verdict(group, event.job, verdict, envelope.at);
  count_units(state,
              {.unit = units_name(group.counted_in()),
               .count = group.counted_done() - before,
               .jobs = {event.job},
               .at = envelope.at,
               .busy = Duration(group.busy_microseconds - busy_before)});
  if (!event.report.verdicts.empty()) state.index.work->groups_due.insert(group.id);
}

}  // namespace tranche::engine
