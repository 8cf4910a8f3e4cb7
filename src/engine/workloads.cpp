// SPDX-License-Identifier: Apache-2.0
// What follows for groups, waiters and services when jobs move.
#include "engine/workloads.hpp"

#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/group_steps.hpp"
#include "engine/start_window.hpp"

namespace tranche::engine {
namespace {

Events advance_waiter(const State& state, const Dependencies& waits) {
  for (const After& after : waits.after) {
    const Job* job = state.job(after.job);
    if (job == nullptr || after.any || job->state == JobState::kSucceeded || !is_over(job->state)) continue;
    return Events{JobEnded{
        .id = waits.job,
        .owner = waits.owner,
        .state = JobState::kFailed,
        .reason = EndReason::kDependencyFailed,
        .message = text(after.job) + ", which it waited for, has " + std::string(wire::name_of(job->state))}};
  }
  const bool all_over = std::all_of(waits.after.begin(), waits.after.end(), [&](const After& after) {
    const Job* job = state.job(after.job);
    return job == nullptr || is_over(job->state);
  });
  if (!all_over) return {};
  return Events{JobReleased{waits.job, waits.owner}};
}

// A running job whose hours are over saves its work, and goes on in the next.
Events close_hours(const State& state, const Job& job) {
  Events events;
  if (is_over(job.state) || !job.ask.window) return events;
  for (const LeaseId id : job.leases) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(revocation(state,
                                  lease,
                                  EndReason::kWindowClosed,
                                  "its window " + text(*job.ask.window) + " has closed",
                                  JobId{}));
  }
  return events;
}

// From the grant on, which lay inside: a start that takes long must not slip into the next window.
void await_closing(const State& state, const Job& job) {
  if (!job.ask.window || job.ask.window->at_end != wire::WindowEnd::kStop || job.leases.empty()) return;
  const Lease& first = state.leases.at(job.leases.front());
  if (first.live()) state.index.work->closings.emplace(open_span(*job.ask.window, first.granted).to, job.id);
}

void end_waiting(State& state, JobId id) {
  const auto found = state.work.waits.find(id);
  if (found == state.work.waits.end()) return;
  for (const After& after : found->second.after) {
    const auto [from, to] = state.index.work->waiters.equal_range(after.job);
    const auto mine = std::find_if(from, to, [&](const auto& entry) { return entry.second == id; });
    if (mine != to) state.index.work->waiters.erase(mine);
  }
  state.work.waits.erase(found);
  state.index.work->waiters_due.erase(id);
}

}  // namespace

bool is_held(const State& state, JobId id) {
  return state.work.groups.contains(id) || state.work.waits.contains(id);
}

UnitSet units_left(const State& state, JobId id) {
  const auto parent = state.index.work->group_of.find(id);
  if (parent == state.index.work->group_of.end()) return {};
  const Chunk* chunk = state.work.groups.at(parent->second).chunk_of(id);
  return chunk == nullptr ? UnitSet{} : chunk->left;
}

bool work_due(const State& state, Instant now) {
  const WorkIndex& index = *state.index.work;
  return !index.groups_due.empty() || !index.waiters_due.empty() || !index.judged_next.empty() ||
         (!index.looks.empty() && index.looks.begin()->first <= now) ||
         (!index.closings.empty() && index.closings.begin()->first <= now) ||
         (!index.runs.empty() && index.runs.begin()->first <= now) ||
         (!index.listings.empty() && index.listings.begin()->first <= now);
}

Events advance_workloads(const State& state, const Envelope& envelope) {
  WorkIndex& index = *state.index.work;
  while (!index.looks.empty() && index.looks.begin()->first <= envelope.at) {
    index.groups_due.insert(index.looks.begin()->second);
    index.looks.erase(index.looks.begin());
  }
  while (!index.closings.empty() && index.closings.begin()->first <= envelope.at) {
    const Job* job = state.job(index.closings.begin()->second);
    index.closings.erase(index.closings.begin());
    if (job == nullptr) continue;
    if (Events events = close_hours(state, *job); !events.empty()) return events;
  }
  if (!index.runs.empty() && index.runs.begin()->first <= envelope.at)
    return run_recurring(state, envelope, state.work.recurring.at(index.runs.begin()->second));
  if (!index.listings.empty() && index.listings.begin()->first <= envelope.at)
    return list_again(state, envelope, state.recurring_listings.at(index.listings.begin()->second));
  while (!index.judged_next.empty()) {
    const JobId id = *index.judged_next.begin();
    index.judged_next.erase(index.judged_next.begin());
    if (Events events = judge_levels(state, id); !events.empty()) return events;
  }
  while (!index.waiters_due.empty()) {
    const JobId id = *index.waiters_due.begin();
    index.waiters_due.erase(index.waiters_due.begin());
    const auto found = state.work.waits.find(id);
    if (found == state.work.waits.end()) continue;
    if (Events events = advance_waiter(state, found->second); !events.empty()) return events;
  }
  while (!index.groups_due.empty()) {
    const JobId id = *index.groups_due.begin();
    index.groups_due.erase(index.groups_due.begin());
    const auto found = state.work.groups.find(id);
    if (found == state.work.groups.end()) continue;
    if (Events events = advance_group(state, envelope, found->second); !events.empty()) return events;
  }
  return {};
}

void apply(State& state, const Envelope&, const JobWaits& event) {
  state.work.waits.emplace(event.id, Dependencies{event.id, event.owner, event.after});
  for (const After& after : event.after) state.index.work->waiters.emplace(after.job, event.id);
  state.index.capacity->dequeue(state, state.jobs.at(event.id));
}

void apply(State& state, const Envelope&, const JobReleased& event) {
  end_waiting(state, event.id);
  const Job& job = state.jobs.at(event.id);
  if (state.work.groups.contains(event.id)) {
    state.index.work->groups_due.insert(event.id);
  } else if (job.state == JobState::kPending) {
    state.index.capacity->enqueue(state, job);
  }
}

void note_job_running(State& state, const Job& job, Instant at) {
  if (!state.work.levels.empty() && job.started == at) state.index.work->judged_next.insert(job.id);
  await_closing(state, job);
  const auto parent = state.index.work->group_of.find(job.id);
  if (parent == state.index.work->group_of.end()) return;
  JobGroup& group = state.work.groups.at(parent->second);
  if (group.first_started == Instant{}) group.first_started = at;
  for (Chunk& chunk : group.chunks) {
    if (chunk.job != job.id) continue;
    chunk.at = at;
    if (job.started == at) chunk.added.clear();  // The new lease has them from its beginning.
  }
  Job& whole = state.jobs.at(group.id);
  if (whole.state == JobState::kPending) {
    whole.state = JobState::kRunning;
    whole.started = at;
    whole.version = state.sequence;
  }
  state.index.work->groups_due.insert(group.id);
}

void note_job_ended(State& state, const Job& job, Instant at) {
  WorkIndex& index = *state.index.work;
  if (!state.work.levels.empty()) index.judged_next.insert(job.id);
  end_waiting(state, job.id);
  if (const auto kept = state.work.checkpoints.find(job.id); kept != state.work.checkpoints.end()) {
    kept->second.saved_by.clear();
    if (kept->second.notes.empty()) state.work.checkpoints.erase(kept);
  }
  const auto [from, to] = index.waiters.equal_range(job.id);
  for (auto waiter = from; waiter != to; ++waiter) index.waiters_due.insert(waiter->second);
  if (const auto parent = index.group_of.find(job.id); parent != index.group_of.end()) {
    JobGroup& group = state.work.groups.at(parent->second);
    end_chunk(group, job, at);
    if (const auto whole = state.jobs.find(group.id); whole != state.jobs.end())
      whole->second.version = state.sequence;
    index.groups_due.insert(group.id);
    index.group_of.erase(parent);
  }
  if (const auto service = index.service_of.find(job.id); service != index.service_of.end()) {
    if (const auto found = state.work.services.find(service->second); found != state.work.services.end())
      std::erase_if(found->second.replicas, [&](const Replica& one) { return one.job == job.id; });
    index.service_of.erase(service);
  }
  // What it held of the tenant's quota may be what a group of that tenant waits for.
  const PartyId tenant = tenant_of(state, job.owner);
  for (const auto& [id, group] : state.work.groups)
    if (!group.waiting.empty() && tenant_of(state, group.owner) == tenant) index.groups_due.insert(id);
}

void look_at_waiting_groups(State& state) {
  for (const auto& [id, group] : state.work.groups)
    if (!group.waiting.empty()) state.index.work->groups_due.insert(id);
}

void forget_work(State& state) {
  const auto gone = [&](const auto& entry) { return !state.jobs.contains(entry.first); };
  std::erase_if(state.work.progress, gone);
  std::erase_if(state.work.groups, gone);
  std::erase_if(state.work.unsettled, gone);
  std::erase_if(state.work.checkpoints, gone);
  std::erase_if(state.index.work->group_of,
                [&](const auto& entry) { return !state.work.groups.contains(entry.second); });
  look_at_waiting_groups(state);
}

void rebuild_work_index(State& state) {
  WorkIndex& index = *state.index.work;
  index = {};
  for (auto& [id, group] : state.work.groups) {
    if (!group.charged) sum_up(state, group);
    for (const Chunk& chunk : group.chunks) index.group_of.emplace(chunk.job, id);
    if (!is_over(state.jobs.at(id).state)) index.groups_due.insert(id);
  }
  for (const auto& [id, waits] : state.work.waits) {
    for (const After& after : waits.after) index.waiters.emplace(after.job, id);
    index.waiters_due.insert(id);
  }
  rebuild_recurring_index(state);
  rebuild_listing_index(state);
  for (const auto& [id, job] : state.jobs)
    if (job.ask.window && !is_over(job.state)) await_closing(state, job);
  for (const auto& [key, service] : state.work.services)
    for (const Replica& replica : service.replicas) index.service_of.emplace(replica.job, key);
}

}  // namespace tranche::engine
