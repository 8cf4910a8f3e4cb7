// SPDX-License-Identifier: Apache-2.0
#include "engine/job.hpp"

#include <algorithm>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/feasible.hpp"
#include "engine/gang_network.hpp"
#include "engine/start_window.hpp"
#include "engine/submit.hpp"
#include "engine/unit_quota.hpp"

namespace tranche::engine {
namespace {

// Bounds that keep every product of them inside 64 bits.
constexpr std::uint32_t kInstancesMax = 100'000;
constexpr std::int64_t kVramMax = 1'000'000'000'000'000 / kInstancesMax * 100;
constexpr Duration kTimeMax = std::chrono::hours(24 * 365);

std::optional<Refusal> ask_problem(const State& state, const Ask& ask, Instant now) {
  const auto invalid = [](std::string rule, std::string message, std::string fix) {
    return Refusal{.reason = Reason::kInvalid,
                   .rule = std::move(rule),
                   .message = std::move(message),
                   .fix = std::move(fix)};
  };
  if (ask.instances > kInstancesMax || ask.milli_each > 1000) {
    return invalid("gpus", "a job takes at most 100,000 devices, each at most whole", "ask for less");
  }
  if (ask.vram_each < 0 || ask.vram_each > kVramMax || ask.storage_bytes < 0) {
    return invalid("vram", "no device has that much memory", "ask for less memory");
  }
  if (ask.time < Duration{} || ask.time > kTimeMax) {
    return invalid("time", "a time limit is between zero and a year", "give for example --time 2h");
  }
  if (ask.is_elastic() &&
      (ask.nodes_min == 0 || ask.nodes != ask.nodes_min || ask.instances % ask.nodes != 0 ||
       std::uint64_t{ask.instances / ask.nodes} * ask.nodes_max > kInstancesMax)) {
    return invalid("workers",
                   "bounds are at least one worker, and at most 100,000 devices in all",
                   "give for example --workers 2..8");
  }
  if (ask.priority > 100)
    return invalid("priority", "priorities are 0 to 100", "give a number from 0 to 100");
  if (ask.spend < Money{})
    return invalid("spend", "a spend limit cannot be negative", "give a positive amount");
  if (ask.deadline && *ask.deadline <= now)
    return invalid("deadline", "the deadline has passed already", "give one in the future");
  if (!ask.sku.empty() && !state.skus.contains(ask.sku)) {
    return invalid("sku", "there is no SKU '" + ask.sku + "'", "tranche sku list shows what there is");
  }
  return std::nullopt;
}

std::optional<Refusal> label_problem(const State& state, PartyId owner, const Ask& ask) {
  const auto label = ask.labels.find("booking");
  if (label == ask.labels.end()) return std::nullopt;
  const auto number = parse_id("clm_", label->second);
  const Booking* booking = number ? state.booking({*number}) : nullptr;
  if (booking != nullptr && booking->kind != ClaimKind::kMaintenance &&
      booking->state == BookingState::kBooked && is_at_or_below(state, owner, booking->owner))
    return std::nullopt;
  return Refusal{.reason = Reason::kInvalid,
                 .rule = "booking",
                 .message = "the label booking=" + label->second + " names no booking that this job may use",
                 .fix = "tranche book list shows yours"};
}

constexpr std::int64_t kUnitsMax = 1'000'000;
constexpr std::uint32_t kChunkMax = 10'000;
constexpr std::uint32_t kTriesMax = 100;
constexpr std::size_t kAfterMax = 100;

std::optional<Refusal> units_problem(const SubmitJob& command) {
  if (command.unit == wire::WorkUnit::kNone) return std::nullopt;
  const bool sane = command.units.count() >= 1 && command.units.count() <= kUnitsMax &&
                    command.chunk <= kChunkMax && command.unit_tries >= 1 &&
                    command.unit_tries <= kTriesMax && command.ask.nodes == 1;
  if (sane && !command.milliseconds.empty() &&
      static_cast<std::int64_t>(command.milliseconds.size()) != command.units.count())
    return Refusal{.reason = Reason::kInvalid,
                   .rule = "media.pieces",
                   .message = "media.pieces says how long each unit is, and there are " +
                              std::to_string(command.units.count()) + " units",
                   .fix = "give as many lengths as there are units, or leave it out"};
  if (sane) return std::nullopt;
  return Refusal{.reason = Reason::kInvalid,
                 .rule = "units",
                 .message =
                     "a job has 1 to 1,000,000 units in chunks of at most 10,000, each tried at most "
                     "100 times, and is no gang",
                 .fix = "for example: tranche run --kind render --frames 1-240 -- ./render.sh {frame}"};
}

// A dependency that has failed already can never be fulfilled: better said now than later.
std::optional<Refusal> after_problem(const State& state,
                                     const Actor& actor,
                                     const std::vector<After>& after) {
  const auto invalid = [](Reason reason, std::string message) {
    return Refusal{.reason = reason,
                   .rule = "after",
                   .message = std::move(message),
                   .fix = "name jobs that exist: --after job_00007K, or job_00007K:any however it ends"};
  };
  if (after.size() > kAfterMax) return invalid(Reason::kInvalid, "a job waits for at most 100 others");
  for (const After& one : after) {
    const Job* job = state.job(one.job);
    if (job == nullptr || !can_see(state, actor, *job))
      return invalid(Reason::kNotFound, "there is no job " + text(one.job) + " to wait for");
    if (!one.any && is_over(job->state) && job->state != JobState::kSucceeded)
      return invalid(Reason::kConflict, text(one.job) + " has ended, and not well");
  }
  return std::nullopt;
}

SubmitJob of_whole_nodes(const State& state, SubmitJob job) {
  job.ask = with_whole_nodes(state, job.ask);
  return job;
}

}  // namespace

Decision submission(
    const State& state, const Envelope& envelope, const Actor& actor, PartyId owner, const SubmitJob& job) {
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, owner)) return refuse(*refusal);
  if (owner.kind() != PartyKind::kUser && owner.kind() != PartyKind::kService) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "owner",
                          .message = "a job belongs to a user or a service account",
                          .fix = "name a user, or leave the owner out"});
  }
  if (auto refusal = ask_problem(state, job.ask, envelope.at)) return refuse(*refusal);
  if (auto refusal = label_problem(state, owner, job.ask)) return refuse(*refusal);
  const VolumeWish wish{job.ask.volumes, std::max(job.ask.nodes, job.ask.nodes_max), job.ask.simulated};
  if (auto refusal = volume_problem(state, owner, wish)) return refuse(*refusal);
  if (auto refusal = gang_network_problem(state, job.ask)) return refuse(*refusal);
  if (auto refusal = units_problem(job)) return refuse(*refusal);
  Decision events = job.ask.whole_node ? submission_events(state, envelope, owner, of_whole_nodes(state, job))
                                       : submission_events(state, envelope, owner, job);
  if (!events) return events;  // His own limits are what he can change, and are told first.
  if (auto refusal = impossibility(state, owner, job.ask)) return refuse(*refusal);
  return events;
}

Decision submission_events(const State& state,
                           const Envelope& envelope,
                           PartyId owner,
                           const SubmitJob& job) {
  auto admitted = admit(state, owner, job.ask, envelope.at);
  if (!admitted) return refuse(admitted.error());
  const Money spend = admitted->spend;
  const bool is_group = job.unit != wire::WorkUnit::kNone;
  if (is_group) {  // Its chunks are admitted one by one; the parent itself takes nothing.
    admitted = admit(state, owner, parent_ask(job.ask), envelope.at);
    if (!admitted) return refuse(admitted.error());
  }
  if (auto refusal = unit_quota_problem(state, owner, job, envelope.at)) return refuse(*refusal);
  Ask bound = job.ask;
  bound.time = admitted->time;
  bound.spend = spend;
  const auto start = planned_start(state, owner, bound, admitted->admission, envelope.at);
  if (!start) return refuse(start.error());
  Events events;
  events.reserve(1);
  auto& event = std::get<JobSubmitted>(events.emplace_back(JobSubmitted{.id = {state.next_job},
                                                                        .owner = owner,
                                                                        .admission = admitted->admission,
                                                                        .hold = admitted->hold,
                                                                        .name = job.name,
                                                                        .spec = job.spec,
                                                                        .not_before = *start}));
  if (!is_group) {
    event.ask = std::move(bound);
    return events;
  }
  event.ask = parent_ask(bound);
  Ask whole = job.ask;  // Each chunk gets the time limit that holds when it is formed.
  whole.spend = spend;
  events.push_back(GroupFormed{.id = {state.next_job},
                               .owner = owner,
                               .unit = job.unit,
                               .range = job.units,
                               .chunk = job.chunk,
                               .tries = job.unit_tries,
                               .ask = std::move(whole),
                               .milliseconds = job.milliseconds});
  return events;
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const SubmitJob& command) {
  const PartyId owner = command.owner == PartyId{} ? actor.party : command.owner;
  if (auto refusal = after_problem(state, actor, command.after)) return refuse(*refusal);
  Decision made = submission(state, envelope, actor, owner, command);
  if (!made) return made;
  JobWaits waits{.id = {state.next_job}, .owner = owner};
  for (const After& after : command.after)
    if (!is_over(state.jobs.at(after.job).state)) waits.after.push_back(after);
  if (!waits.after.empty()) made->push_back(std::move(waits));
  return made;
}

void apply(State& state, const Envelope& envelope, const JobSubmitted& event) {
  hold_quota(state, event.owner, event.ask, event.hold);
  state.jobs.emplace_hint(state.jobs.end(),
                          event.id,
                          Job{.id = event.id,
                              .owner = event.owner,
                              .state = JobState::kPending,
                              .admission = event.admission,
                              .hold = event.hold,
                              .submitted = envelope.at,
                              .ended = {},
                              .version = state.sequence,
                              .name = event.name,
                              .ask = event.ask,
                              .spec = event.spec,
                              .not_before = event.not_before.value_or(Instant{})});
  state.index.jobs_by_owner[event.owner].push_back(event.id);
  state.index.capacity->enqueue(state, state.jobs.rbegin()->second);
  state.next_job = std::max(state.next_job, event.id.value + 1);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const StopJob& command) {
  const Job* job = state.job(command.id);
  if (auto refusal = job_change_problem(state, actor, job, "stop")) return refuse(*refusal);
  if (is_over(job->state)) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "ended",
                          .message = text(job->id) + " has ended already",
                          .fix = "tranche show " + text(job->id)});
  }
  Events events;
  append_stop(state, *job, events);
  return events;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ReleaseJob& command) {
  const Job* job = state.job(command.id);
  if (auto refusal = job_change_problem(state, actor, job, "release")) return refuse(*refusal);
  if (job->state != JobState::kHeld) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "held",
                          .message = text(job->id) + " is not held",
                          .fix = "tranche show " + text(job->id)});
  }
  return Events{HeldJobReleased{job->id, job->owner}};
}

void append_stop(const State& state, const Job& job, Events& events) {
  bool runs = false;
  for (const LeaseId id : job.leases) {
    const Lease& lease = state.leases.at(id);
    runs = runs || lease.live();
    if (lease.live() && !lease.revoked)
      events.push_back(revocation(state, lease, EndReason::kStopped, "stopped by request", JobId{}));
  }
  const auto group = state.work.groups.find(job.id);
  if (group != state.work.groups.end()) {
    for (const Chunk& chunk : group->second.chunks) append_stop(state, state.jobs.at(chunk.job), events);
    runs = !group->second.chunks.empty();
  }
  if (runs) {
    events.push_back(JobStopRequested{job.id, job.owner});
  } else {
    events.push_back(JobEnded{.id = job.id, .owner = job.owner, .state = JobState::kStopped});
  }
}

void apply(State& state, const Envelope& envelope, const JobEnded& event) {
  Job& job = state.jobs.at(event.id);
  release_quota(state, job.owner, job.is_put_aside() ? kept_while_paused(job.ask) : job.ask, job.hold);
  job.state = event.state;
  job.ended = envelope.at;
  job.reason = event.reason;
  job.exit_code = event.exit_code;
  job.exit_signal = event.exit_signal;
  job.message = event.message;
  job.version = state.sequence;
  state.index.capacity->dequeue(state, job);
  drop_foretold(state, job.id);
  note_job_ended(state, job, envelope.at);
}

}  // namespace tranche::engine
