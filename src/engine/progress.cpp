// SPDX-License-Identifier: Apache-2.0
#include "engine/progress.hpp"

#include <algorithm>

#include "engine/decide.hpp"

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

Decision decide(const State& state, const Envelope&, const NoteProgress& command) {
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
  return Events{std::move(noted)};
}

void apply(State& state, const Envelope& envelope, const ProgressNoted& event) {
  Node& node = state.nodes.at(event.node);
  node.received = std::max(node.received, event.sequence);
  if (event.job == JobId{} || !state.jobs.contains(event.job)) return;
  if (event.report.unit != WorkUnit::kNone) {
    JobProgress& progress = state.work.progress[event.job];
    progress.job = event.job;
    advance(progress, event.report, envelope.at);
    if (progress.done > progress.best) {
      count_units(state, event.job, units_name(progress.unit), progress.done - progress.best);
      progress.best = progress.done;
    }
  }
  const auto parent = state.index.work->group_of.find(event.job);
  if (parent == state.index.work->group_of.end()) return;
  JobGroup& group = state.work.groups.at(parent->second);
  const std::int64_t before = group.done;
  for (const wire::UnitVerdict& verdict : event.report.verdicts)
    take_verdict(group, event.job, verdict, envelope.at);
  count_units(state, event.job, units_name(group.unit), group.done - before);
  if (!event.report.verdicts.empty()) state.index.work->groups_due.insert(group.id);
}

}  // namespace tranche::engine
