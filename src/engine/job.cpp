// SPDX-License-Identifier: Apache-2.0
#include "engine/job.hpp"

#include <algorithm>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

// Bounds that keep every product of them inside 64 bits.
constexpr std::uint32_t kInstancesMax = 100'000;
constexpr std::int64_t kVramMax = 1'000'000'000'000'000 / kInstancesMax * 100;
constexpr Duration kTimeMax = std::chrono::hours(24 * 365);

std::optional<Refusal> ask_problem(const State& state, const Ask& ask) {
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
  if (ask.priority > 100)
    return invalid("priority", "priorities are 0 to 100", "give a number from 0 to 100");
  if (ask.spend < Money{})
    return invalid("spend", "a spend limit cannot be negative", "give a positive amount");
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

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const SubmitJob& command) {
  const PartyId owner = command.owner == PartyId{} ? actor.party : command.owner;
  if (auto refusal = check_access(state, actor, Action::kSubmitJob, owner)) return refuse(*refusal);
  if (owner.kind() != PartyKind::kUser && owner.kind() != PartyKind::kService) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "owner",
                          .message = "a job belongs to a user or a service account",
                          .fix = "name a user, or leave the owner out"});
  }
  if (auto refusal = ask_problem(state, command.ask)) return refuse(*refusal);
  if (auto refusal = label_problem(state, owner, command.ask)) return refuse(*refusal);
  const VolumeWish wish{command.ask.volumes, command.ask.nodes, command.ask.simulated};
  if (auto refusal = volume_problem(state, owner, wish)) return refuse(*refusal);
  const auto admitted = admit(state, owner, command.ask, envelope.at);
  if (!admitted) return refuse(admitted.error());
  Events events;
  events.reserve(1);
  auto& event = std::get<JobSubmitted>(events.emplace_back(JobSubmitted{.id = {state.next_job},
                                                                        .owner = owner,
                                                                        .admission = admitted->admission,
                                                                        .hold = admitted->hold,
                                                                        .name = command.name,
                                                                        .ask = command.ask,
                                                                        .spec = command.spec}));
  event.ask.time = admitted->time;
  return events;
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
                              .spec = event.spec});
  state.index.jobs_by_owner[event.owner].push_back(event.id);
  state.index.capacity->enqueue(state, state.jobs.rbegin()->second);
  state.next_job = std::max(state.next_job, event.id.value + 1);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const StopJob& command) {
  const Job* job = state.job(command.id);
  if (job == nullptr || !can_see(state, actor, *job)) return refuse(not_found());
  if (!may(state, actor, Action::kStopJob, job->owner)) {
    return refuse(Refusal{.reason = Reason::kForbidden,
                          .rule = "role",
                          .where = path_of(state, job->owner),
                          .message = "you may see this job, but not stop it",
                          .fix = "ask its owner or an administrator"});
  }
  if (is_over(job->state)) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "ended",
                          .message = text(job->id) + " has ended already",
                          .fix = "tranche show " + text(job->id)});
  }
  Events events;
  for (const LeaseId id : job->leases) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(revocation(state, lease, EndReason::kStopped, "stopped by request", JobId{}));
  }
  const bool runs = std::any_of(
      job->leases.begin(), job->leases.end(), [&](LeaseId id) { return state.leases.at(id).live(); });
  if (runs) {
    events.push_back(JobStopRequested{command.id, job->owner});
    return events;
  }
  return Events{JobEnded{.id = command.id, .owner = job->owner, .state = JobState::kStopped}};
}

void apply(State& state, const Envelope& envelope, const JobEnded& event) {
  Job& job = state.jobs.at(event.id);
  release_quota(state, job.owner, job.ask, job.hold);
  job.state = event.state;
  job.ended = envelope.at;
  job.reason = event.reason;
  job.exit_code = event.exit_code;
  job.exit_signal = event.exit_signal;
  job.message = event.message;
  job.version = state.sequence;
  state.index.capacity->dequeue(state, job);
}

}  // namespace tranche::engine
