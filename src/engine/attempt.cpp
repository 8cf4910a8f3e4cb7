// SPDX-License-Identifier: Apache-2.0
#include "engine/attempt.hpp"

#include <algorithm>

#include "engine/device_life.hpp"
#include "engine/handover.hpp"
#include "engine/lease_meter.hpp"
#include "engine/schedule.hpp"
#include "wire/job_spec.hpp"

namespace tranche::engine {
namespace {

// Faults of the platform do not count against a job, up to a point: a job that takes every node down with it
// must not go on for ever.
constexpr std::uint32_t kFaultsMax = 4;
constexpr Duration kFaultBackoff = std::chrono::seconds(5);
constexpr Duration kBackoffMax = std::chrono::minutes(10);
// A long job meets many faults on its way, and each is the first again once it got further. What it saved
// sooner than the longest pause does not count: else a job that saves first and then takes its node down
// would go round faster than one that saves nothing. Without anything saved, only a very long run shows that
// it is not what it does that ends it.
constexpr Duration kSavesAfter = kBackoffMax;
constexpr Duration kLongRun = std::chrono::hours(24);
constexpr Duration kDefaultGrace = std::chrono::seconds(30);

Duration backoff(Duration first, std::uint32_t times) {
  Duration wait = first;
  for (std::uint32_t i = 0; i < times && wait < kBackoffMax; ++i) wait *= 2;
  return std::min(wait, kBackoffMax);
}

// A device that failed is out of service by now: the first time there is nothing to wait for.
Duration fault_pause(EndReason reason, std::uint32_t faults) {
  return reason == EndReason::kDeviceFault && faults == 0 ? Duration{} : backoff(kFaultBackoff, faults);
}

bool goes_on(EndReason reason) {
  return reason == EndReason::kPreempted || reason == EndReason::kWindowClosed ||
         reason == EndReason::kResized || reason == EndReason::kPaused;
}

// How the attempt ended: the worst that any member said.
struct Verdict {
  EndReason reason = EndReason::kExited;
  std::int32_t exit_code = 0;
  std::int32_t exit_signal = 0;
  std::string message{};
  [[nodiscard]] bool good() const {
    return reason == EndReason::kExited && exit_code == 0 && exit_signal == 0;
  }
};

Verdict verdict_of(const State& state, const Job& job, const wire::LeaseReport& last) {
  const auto as_verdict = [](const auto& end) {
    return Verdict{end.reason, end.exit_code, end.exit_signal, end.message};
  };
  Verdict verdict = as_verdict(last);
  for (const LeaseId id : job.leases) {
    const Lease& lease = state.leases.at(id);
    // Whoever was ended only because another member failed says nothing of the cause.
    if (id == last.lease || lease.live() || lease.revoked) continue;
    if (const Verdict other = as_verdict(lease); !other.good()) verdict = other;
  }
  return verdict;
}

// Whether this attempt left the job further than it was, or proved that it can run.
bool got_further(const State& state, const Job& job, const wire::LeaseReport& last, Instant now) {
  return std::any_of(job.leases.begin(), job.leases.end(), [&](LeaseId id) {
    const Lease& lease = state.leases.at(id);
    if (lease.started == Instant{}) return false;
    Instant saved = lease.checkpoint;
    if (id == last.lease && last.checkpoint) saved = std::max(saved, *last.checkpoint);
    const Instant until = lease.live() ? now : lease.ended;
    return saved >= lease.started + kSavesAfter || until >= lease.started + kLongRun;
  });
}

// Chunks and replicas are replaced by whoever made them: nobody would look after one that is held.
bool can_be_held(const State& state, JobId job) {
  return !state.index.work->group_of.contains(job) && !state.index.work->service_of.contains(job);
}

Event outcome(const State& state, const Envelope& envelope, const Job& job, const wire::LeaseReport& last) {
  const Verdict verdict = verdict_of(state, job, last);
  const auto ended = [&](JobState how, EndReason reason) {
    return JobEnded{.id = job.id,
                    .owner = job.owner,
                    .state = how,
                    .reason = reason,
                    .exit_code = verdict.exit_code,
                    .exit_signal = verdict.exit_signal,
                    .message = verdict.message};
  };
  if (job.stop_requested) return ended(JobState::kStopped, EndReason::kStopped);
  if (verdict.good()) return ended(JobState::kSucceeded, EndReason::kExited);
  const bool progressed = got_further(state, job, last, envelope.at);
  const std::uint32_t faults = progressed ? 0 : job.faults;
  const auto again = [&](Duration wait) -> Event {
    if (job.paused) return pause_of(state, job);
    return JobRequeued{job.id, verdict.reason, envelope.at + wait, verdict.message, job.owner, progressed};
  };
  // What it did, it would do again.
  if (verdict.reason == EndReason::kSpendLimit || verdict.reason == EndReason::kUnitQuota ||
      verdict.reason == EndReason::kWentAround)
    return ended(JobState::kFailed, verdict.reason);
  if (goes_on(verdict.reason)) return again(Duration{});
  if (is_platform_fault(verdict.reason) && (job.paused || faults + 1 < kFaultsMax))
    return again(fault_pause(verdict.reason, faults));
  if (verdict.reason == EndReason::kIdleLimit) return ended(JobState::kStopped, verdict.reason);
  if (is_own_error(verdict.reason) && job.errors < job.ask.retries)
    return again(backoff(job.ask.retry_backoff, job.errors));
  if (is_platform_fault(verdict.reason) && can_be_held(state, job.id))
    return JobHeld{.id = job.id,
                   .owner = job.owner,
                   .reason = verdict.reason,
                   .exit_code = verdict.exit_code,
                   .exit_signal = verdict.exit_signal,
                   .message = verdict.message};
  return ended(JobState::kFailed, verdict.reason);
}

}  // namespace

LeaseGranted grant_for(const State& state, const Job& job, std::uint32_t rank, std::uint64_t nth) {
  return {.id = {state.next_lease + nth - 1},
          .job = job.id,
          .attempt = job.attempts + 1,
          .rank = rank,
          .epoch = (state.sequence + 1) * kEpochsOfRecord + nth,
          .owner = job.owner,
          .isolation = job.ask.isolation};
}

bool is_own_error(EndReason reason) {
  return !is_platform_fault(reason) && !goes_on(reason) && reason != EndReason::kNone;
}

bool saves_itself(const Job& job, const Lease& first) {
  if (first.checkpoint > first.granted) return true;
  const auto spec = wire::from_json<wire::JobSpec>(job.spec);
  return spec && spec->checkpoint;
}

Duration grace_of(const Job& job) {
  const auto spec = wire::from_json<wire::JobSpec>(job.spec);
  return spec && spec->checkpoint ? spec->checkpoint->grace : kDefaultGrace;
}

LeaseRevoked revocation(
    const State& state, const Lease& lease, EndReason reason, std::string message, JobId promised_to) {
  const Job* job = state.job(lease.job);
  const Duration grace = job == nullptr ? kDefaultGrace : grace_of(*job);
  return {.id = lease.id,
          .way = RevokeWay::kCheckpoint,
          .reason = reason,
          .grace = grace,
          .message = std::move(message),
          .promised_to = promised_to,
          .owner = lease.owner};
}

Events lease_over(const State& state,
                  const Envelope& envelope,
                  const Lease& lease,
                  wire::LeaseReport report,
                  std::uint64_t link_sequence) {
  // What the platform asked for is the reason, whatever the process made of its signal.
  if (lease.revoked && report.reason == EndReason::kExited &&
      !(report.exit_code == 0 && goes_on(lease.revoke_reason)))
    report.reason = lease.revoke_reason;
  if (lease.revoked && report.reason == EndReason::kNone) report.reason = lease.revoke_reason;
  Events events{LeaseReported{lease.node, link_sequence, report, lease.owner}};
  append_meter_end(state, envelope.at, lease, report, events);
  append_left(state, lease, events);
  append_handover(state, envelope, lease, report.state, events);
  const Job* job = state.job(lease.job);
  if (job == nullptr || is_over(job->state)) return events;
  const bool clean = report.reason == EndReason::kExited && report.exit_code == 0 && report.exit_signal == 0;
  bool others_live = false;
  for (const LeaseId id : job->leases) {
    if (id == lease.id) continue;
    const Lease& other = state.leases.at(id);
    if (!other.live()) continue;
    others_live = true;
    if (!clean && !other.revoked)
      events.push_back(revocation(state, other, report.reason, "another member of its gang ended", JobId{}));
  }
  if (others_live) return events;
  Event out = outcome(state, envelope, *job, report);
  // It waits for the fewest that it can go on with, and holds no quota for more.
  const bool waits = std::holds_alternative<JobRequeued>(out) || std::holds_alternative<JobPaused>(out);
  if (waits && job->ask.surplus() > 0) events.push_back(JobResized{job->id, job->owner, job->ask.nodes_min});
  if (waits && !job->ask.is_smallest())
    events.push_back(JobResliced{job->id, job->owner, job->ask.range->milli_min, job->ask.range->vram_min});
  events.push_back(std::move(out));
  return events;
}

void release_after_reboot(State& state, NodeId node) {
  Capacity& capacity = *state.index.capacity;
  const std::set<LeaseId> held = capacity.leases_on(node);
  for (const LeaseId id : held) {
    Lease& lease = state.leases.at(id);
    if (lease.live() || lease.scrubbed) continue;
    tally(state, lease, state.now);
    lease.scrubbed = true;
    if (const Job* job = state.job(lease.job)) release_slices(state, lease, job->ask);
  }
}

void release_slices(State& state, const Lease& lease, const Ask& ask) {
  state.index.capacity->release(lease, ask);
  state.index.capacity->refresh_holds(state, lease);
}

}  // namespace tranche::engine
