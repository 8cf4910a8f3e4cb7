// SPDX-License-Identifier: Apache-2.0
#include "engine/group_steps.hpp"

#include <algorithm>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/chunk_extension.hpp"
#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/workloads.hpp"

namespace tranche::engine {
namespace {

std::uint32_t running_chunks(const State& state, const JobGroup& group) {
  std::uint32_t running = 0;
  for (const Chunk& chunk : group.chunks) running += state.jobs.at(chunk.job).state == JobState::kRunning;
  return running;
}

Events end_group(const JobGroup& group, const Job& parent) {
  JobEnded ended{
      .id = group.id, .owner = group.owner, .state = JobState::kSucceeded, .reason = EndReason::kExited};
  if (parent.stop_requested) {
    ended.state = JobState::kStopped;
    ended.reason = EndReason::kStopped;
  } else if (group.given_up > 0) {
    ended.state = JobState::kFailed;
    ended.reason = EndReason::kUnitsFailed;
    ended.exit_code = 1;
    ended.message = failure_text(group);
  }
  return Events{std::move(ended)};
}

Result<Events, Refusal> chunk_events(const State& state,
                                     const Envelope& envelope,
                                     const JobGroup& group,
                                     UnitSet units,
                                     const Chunk* copied = nullptr) {
  const Job& parent = state.jobs.at(group.id);
  const auto admitted = admit_chunk(state, group, envelope.at);
  if (!admitted) return refuse(admitted.error());
  const JobId id{state.next_job};
  JobSubmitted submitted{.id = id,
                         .owner = group.owner,
                         .admission = admitted->admission,
                         .hold = admitted->hold,
                         .name = parent.name + "[" + wire::text(units) + "]",
                         .ask = group.ask,
                         .spec = parent.spec};
  submitted.ask.time = admitted->time;
  submitted.ask.retries = 0;  // Units are tried again one by one, and not whole chunks.
  if (copied != nullptr) {    // Only with what nobody else wants.
    submitted.ask.priority = 0;
    submitted.ask.preemptible = true;
  }
  ChunkFormed formed{group.id, id, group.owner, std::move(units), copied == nullptr ? JobId{} : copied->job};
  return Events{std::move(submitted), std::move(formed)};
}

Events stop_needless(const State& state, const JobGroup& group) {
  Events events;
  std::vector<JobId> jobs = needless_chunks(group);
  // And whoever told its last verdict, and was taken from its place before its end.
  for (const Chunk& chunk : group.chunks)
    if (chunk.left.empty() && state.jobs.at(chunk.job).state == JobState::kPending) jobs.push_back(chunk.job);
  for (const JobId needless : jobs) {
    const Job& job = state.jobs.at(needless);
    if (is_over(job.state) || job.stop_requested) continue;
    append_stop(state, job, events);
    break;
  }
  return events;
}

// Every unit has its verdict, and whoever told the last of them ends by itself: its device may still be
// wiped.
bool has_ended(const State& state, const JobGroup& group, const Job& parent) {
  if (parent.stop_requested) return group.chunks.empty();
  return group.settled() && std::all_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& chunk) {
           return chunk.told && chunk.left.empty() && !chunk.needless &&
                  state.jobs.at(chunk.job).state == JobState::kRunning;
         });
}

// Whether its own spend limit leaves too little for anything of it to start. What runs has its money.
bool is_spent(const State& state, const JobGroup& group, Instant at) {
  if (group.ask.spend == Money{}) return false;
  return std::all_of(
             group.chunks.begin(),
             group.chunks.end(),
             [&](const Chunk& chunk) { return state.jobs.at(chunk.job).state == JobState::kPending; }) &&
         is_own_limit_used_up(state, group, at);
}

Events end_spent(const State& state, const JobGroup& group) {
  Events events;
  for (const Chunk& chunk : group.chunks) append_stop(state, state.jobs.at(chunk.job), events);
  events.emplace_back(
      JobEnded{.id = group.id,
               .owner = group.owner,
               .state = JobState::kFailed,
               .reason = EndReason::kSpendLimit,
               .exit_code = 1,
               .message = "the job's own spend limit is used up; " + std::to_string(group.done) + " of " +
                          std::to_string(group.range.count()) + " " + units_name(group.unit) + " are done"});
  return events;
}

// The last units of a group: what takes too long is tried a second time.
Events advance_tail(const State& state, const Envelope& envelope, const JobGroup& group) {
  const Straggler straggler = find_straggler(group, envelope.at);
  if (straggler.look != Instant{}) state.index.work->looks.emplace(straggler.look, group.id);
  if (straggler.chunk == nullptr) return {};
  auto made = chunk_events(state, envelope, group, straggler.chunk->left, straggler.chunk);
  return made ? std::move(*made) : Events{};
}

}  // namespace

Events advance_group(const State& state, const Envelope& envelope, const JobGroup& group) {
  const Job& parent = state.jobs.at(group.id);
  if (is_over(parent.state) || state.work.waits.contains(group.id)) return {};
  if (has_ended(state, group, parent)) return end_group(group, parent);
  if (parent.stop_requested || parent.paused) return {};
  if (parent.not_before > envelope.at) {
    state.index.work->looks.emplace(parent.not_before, group.id);
    return {};
  }
  if (is_spent(state, group, envelope.at)) return end_spent(state, group);
  if (Events events = stop_needless(state, group); !events.empty()) return events;
  if (Events events = next_extension(state, group, envelope.at); !events.empty()) return events;
  if (group.waiting.empty()) return advance_tail(state, envelope, group);
  const std::uint32_t running = running_chunks(state, group);
  if (group.chunks.size() >= chunks_at_once(running)) return {};
  // Refused: whatever ends in the tenant brings it here again.
  auto made = chunk_events(state, envelope, group, next_chunk(group, running));
  return made ? std::move(*made) : Events{};
}

void apply(State& state, const Envelope&, const GroupFormed& event) {
  JobGroup group{.id = event.id,
                 .owner = event.owner,
                 .unit = event.unit,
                 .range = event.range,
                 .chunk = event.chunk,
                 .tries = event.tries,
                 .ask = event.ask,
                 .waiting = {event.range},
                 .milliseconds = event.milliseconds,
                 .charged = Money{}};
  state.work.groups.emplace(event.id, std::move(group));
  state.index.capacity->dequeue(state, state.jobs.at(event.id));
  state.index.work->groups_due.insert(event.id);
}

void apply(State& state, const Envelope&, const ChunkFormed& event) {
  const auto found = state.work.groups.find(event.group);
  if (found == state.work.groups.end()) return;
  JobGroup& group = found->second;
  if (event.copy_of == JobId{})
    for (const UnitRange& range : event.units)
      for (std::int64_t unit = range.first; unit <= range.last; ++unit)
        wire::remove_unit(group.waiting, unit);
  group.chunks.push_back({.job = event.job, .left = event.units, .copy_of = event.copy_of});
  state.index.work->group_of.emplace(event.job, event.group);
  state.index.work->groups_due.insert(event.group);
}

void apply(State& state, const Envelope&, const ChunkExtended& event) {
  const auto found = state.work.groups.find(event.group);
  if (found == state.work.groups.end()) return;
  extend_chunk(found->second, event);
  state.index.work->groups_due.insert(event.group);
}

void note_group_money(State& state, JobId chunk, Money charged, Money held) {
  const auto parent = state.index.work->group_of.find(chunk);
  if (parent == state.index.work->group_of.end()) return;
  JobGroup& group = state.work.groups.at(parent->second);
  group.charged = Money{group.charged.value_or(Money{}).micros + charged.micros};
  group.held.micros += held.micros;
}

void sum_up(const State& state, JobGroup& group) {
  group.charged = Money{};
  const auto add = [&](JobId id) {
    const Job* job = state.job(id);
    if (job == nullptr) return;
    group.charged->micros += job->charged.micros;
    for (const LeaseId lease : job->leases)
      if (const auto meter = state.meters.find(lease); meter != state.meters.end())
        group.held.micros += meter->second.held.micros;
  };
  for (const JobId id : group.past) add(id);
  for (const Chunk& chunk : group.chunks) add(chunk.job);
}

}  // namespace tranche::engine
