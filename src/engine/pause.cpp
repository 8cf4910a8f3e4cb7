// SPDX-License-Identifier: Apache-2.0
// Jobs that a person puts aside and takes up again. A paused job has saved what it did and is off its node:
// it keeps its storage and its place in the count of jobs, and gives back the rest of its quota, so that
// taking it up again is admitted like a submission.
#include <algorithm>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/start_window.hpp"

namespace tranche::engine {
namespace {

Refusal conflict(std::string rule, std::string message, std::string fix) {
  return {.reason = Reason::kConflict,
          .rule = std::move(rule),
          .message = std::move(message),
          .fix = std::move(fix)};
}

std::optional<Refusal> ended_problem(const Job& job) {
  if (is_over(job.state))
    return conflict("ended", text(job.id) + " has ended already", "tranche show " + text(job.id));
  if (job.stop_requested)
    return conflict("stopping", text(job.id) + " is being stopped", "tranche show " + text(job.id));
  return std::nullopt;
}

// Whoever belongs to something larger would be replaced by another, and not wait.
std::optional<Refusal> belonging_problem(const State& state, const Job& job) {
  const WorkIndex& work = *state.index.work;
  if (const auto group = work.group_of.find(job.id); group != work.group_of.end())
    return conflict(
        "chunk",
        text(job.id) + " is a part of " + text(group->second) + ", which would do its units again",
        "pause all of it: tranche pause " + text(group->second));
  if (const auto service = work.service_of.find(job.id); service != work.service_of.end())
    return conflict("service",
                    text(job.id) + " answers for the service " + service->second.name +
                        ", which would start another in its place",
                    "end the service: tranche service rm " + service->second.name);
  return std::nullopt;
}

bool has_begun(const State& state, const Job& job) {
  return std::any_of(job.leases.begin(), job.leases.end(), [&](LeaseId id) {
    const Lease& lease = state.leases.at(id);
    return lease.live() && lease.started != Instant{};
  });
}

std::optional<Refusal> pause_problem(const State& state, const Job& job, bool from_start) {
  if (auto refusal = ended_problem(job)) return refusal;
  if (job.paused)
    return conflict("paused",
                    text(job.id) + (job.is_put_aside() ? " is paused already" : " is being paused already"),
                    "tranche resume " + text(job.id) + " takes it up again");
  if (job.state == JobState::kHeld)
    return conflict("held",
                    text(job.id) + " is held, and does not run",
                    "tranche release " + text(job.id) + " tries it again, tranche stop ends it");
  if (auto refusal = belonging_problem(state, job)) return refusal;
  if (from_start || !has_begun(state, job) || saves_itself(job, state.leases.at(job.leases.front())))
    return std::nullopt;
  return conflict(
      "checkpoint",
      text(job.id) + " does not say how it saves what it did: it would begin again from its start",
      "if that will do: tranche pause --from-start " + text(job.id) +
          "; else give its next run a checkpoint (docs/progress.md)");
}

// Its attempt ends in the way its workload asks for. False: there is none.
bool append_end_of_attempt(const State& state, const Job& job, Events& events) {
  bool runs = false;
  for (const LeaseId id : job.leases) {
    const Lease& lease = state.leases.at(id);
    if (!lease.live()) continue;
    runs = true;
    if (lease.revoked) continue;
    LeaseRevoked revoked = revocation(state, lease, EndReason::kPaused, "paused by request", JobId{});
    if (lease.parking == Parking::kParked)
      revoked.way = RevokeWay::kKill;  // Off its devices it saves nothing.
    events.push_back(std::move(revoked));
  }
  return runs;
}

}  // namespace

Event pause_of(const State& state, const Job& job) {
  if (state.index.work->group_of.contains(job.id))
    return JobEnded{
        .id = job.id, .owner = job.owner, .state = JobState::kStopped, .reason = EndReason::kPaused};
  return JobPaused{job.id, job.owner};
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const PauseJob& command) {
  const Job* job = state.job(command.id);
  if (auto refusal = job_change_problem(state, actor, job, "pause")) return refuse(*refusal);
  if (auto refusal = pause_problem(state, *job, command.from_start)) return refuse(*refusal);
  Events events;
  const bool runs = append_end_of_attempt(state, *job, events);
  if (const auto group = state.work.groups.find(job->id); group != state.work.groups.end()) {
    for (const Chunk& one : group->second.chunks) {
      const Job& chunk = state.jobs.at(one.job);
      if (is_over(chunk.state) || chunk.stop_requested) continue;
      if (append_end_of_attempt(state, chunk, events)) {
        events.push_back(JobPauseRequested{chunk.id, chunk.owner});
      } else {
        events.push_back(pause_of(state, chunk));
      }
    }
  }
  if (runs) {
    events.push_back(JobPauseRequested{job->id, job->owner});
  } else {
    events.push_back(JobPaused{job->id, job->owner});
  }
  return events;
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const ResumeJob& command) {
  const Job* job = state.job(command.id);
  if (auto refusal = job_change_problem(state, actor, job, "resume")) return refuse(*refusal);
  if (auto refusal = ended_problem(*job)) return refuse(*refusal);
  if (!job->paused)
    return refuse(
        job->state == JobState::kPaused
            ? conflict("paused",
                       text(job->id) + " is paused for the sake of others, and not by request",
                       "it goes on by itself: tranche why " + text(job->id))
            : conflict("paused", text(job->id) + " is not paused", "tranche show " + text(job->id)));
  if (!job->is_put_aside()) return Events{JobResumed{job->id, job->owner, job->admission, job->hold}};
  const auto admitted = readmit(state, *job, envelope.at);
  if (!admitted) return refuse(admitted.error());
  const auto start = planned_start(state, job->owner, job->ask, admitted->admission, envelope.at);
  if (!start) return refuse(start.error());
  return Events{JobResumed{job->id, job->owner, admitted->admission, admitted->hold, *start}};
}

void apply(State& state, const Envelope&, const JobPauseRequested& event) {
  Job& job = state.jobs.at(event.id);
  job.paused = true;
  job.version = state.sequence;
}

void apply(State& state, const Envelope& envelope, const JobPaused& event) {
  Job& job = state.jobs.at(event.id);
  release_quota(state, job.owner, job.ask, job.hold);
  hold_quota(state, job.owner, kept_while_paused(job.ask), Money{});
  job.hold = {};
  job.paused = true;
  job.paused_at = envelope.at;
  job.state = JobState::kPaused;
  job.reason = EndReason::kPaused;
  job.message = "paused by request";
  job.version = state.sequence;
  state.index.capacity->dequeue(state, job);
  state.index.capacity->changed();
  drop_foretold(state, job.id);
  look_at_waiting_groups(state);
}

void apply(State& state, const Envelope& envelope, const JobResumed& event) {
  Job& job = state.jobs.at(event.id);
  const bool was_aside = job.is_put_aside();
  job.paused = false;
  job.version = state.sequence;
  if (!was_aside) return;  // It is saving itself still, and goes on after that.
  release_quota(state, job.owner, kept_while_paused(job.ask), Money{});
  job.admission = event.admission;
  job.hold = event.hold;
  hold_quota(state, job.owner, job.ask, job.hold);
  job.state = JobState::kPending;
  job.not_before = event.not_before.value_or(envelope.at);
  job.paused_for += envelope.at - job.paused_at;
  if (state.work.groups.contains(job.id)) {
    state.index.work->groups_due.insert(job.id);
  } else if (!is_held(state, job.id)) {
    state.index.capacity->enqueue(state, job);
  }
}

}  // namespace tranche::engine
