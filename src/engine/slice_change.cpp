// SPDX-License-Identifier: Apache-2.0
#include "engine/slice_change.hpp"

#include <algorithm>

#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "wire/job_spec.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kAnswerPatience = std::chrono::seconds(60);

// Nothing of it stands on a device that is closed to work: there nothing becomes larger, or smaller for
// others.
bool is_open(const State& state, const Lease& lease) {
  return std::all_of(lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) {
    return takes_work(state.devices.at(slice.device).state);
  });
}

bool is_shared_alone(const State& state, const Job& job, const Lease& lease) {
  return lease.isolation == Isolation::kSoft && job.ask.profile.empty() && job.leases.size() == 1 &&
         !lease.slices.empty() && lease.slices.front().milli < policy::kDeviceMilli &&
         lease.state == LeaseState::kRunning && !lease.stiff && is_open(state, lease);
}

Duration resize_grace(const Job& job) {
  const auto spec = wire::from_json<wire::JobSpec>(job.spec);
  return spec && spec->resize ? spec->resize->grace : wire::Resize{}.grace;
}

}  // namespace

Ask part_of_range(const Ask& from, const Ask& to, int part) {
  const auto between = [part](std::int64_t a, std::int64_t b) { return a + (b - a) * part / kResizeParts; };
  return from.resliced(static_cast<std::uint32_t>(between(from.milli_each, to.milli_each)),
                       between(from.vram_each, to.vram_each));
}

Ask largest(const Ask& ask) {
  return ask.range ? ask.resliced(ask.range->milli_max, ask.range->vram_max) : ask;
}

std::int64_t surplus_of(const Lease& lease, const Job& job) {
  if (!job.ask.range) return 0;
  std::int64_t surplus = 0;
  for (const Slice& slice : lease.slices)
    surplus += std::max<std::int64_t>(slice.milli - std::int64_t{job.ask.range->milli_min}, 0);
  return surplus;
}

bool may_resize(const State& state, const Job& job, const Lease& lease) {
  return job.ask.range && is_shared_alone(state, job, lease) && state.nodes.at(lease.node).features.resizes;
}

bool may_park(const State& state, const Job& job, const Lease& lease) {
  return !job.ask.never_paused && is_shared_alone(state, job, lease) &&
         state.nodes.at(lease.node).features.parks && !state.index.work->service_of.contains(job.id) &&
         !job.ask.gang_network;
}

SliceChangeAsked change_asked(const State& state,
                              const Lease& lease,
                              const SliceChange& change,
                              JobId promised_to,
                              std::string message) {
  return {.id = lease.id,
          .owner = lease.owner,
          .milli = change.milli,
          .vram = change.vram,
          .grace = resize_grace(state.jobs.at(lease.job)),
          .promised_to = promised_to,
          .message = std::move(message)};
}

LeaseParkAsked park_asked(const State&, const Lease& lease, JobId promised_to, const std::string& why) {
  return {.id = lease.id,
          .owner = lease.owner,
          .grace = kParkGrace,
          .promised_to = promised_to,
          .message = why + "; it is paused and goes on when its place is free again"};
}

LeaseId lease_changed_by(const Event& event) {
  if (const auto* asked = std::get_if<SliceChangeAsked>(&event)) return asked->id;
  if (const auto* parked = std::get_if<LeaseParkAsked>(&event)) return parked->id;
  if (const auto* returned = std::get_if<LeaseReturned>(&event)) return returned->id;
  return {};
}

void append_change_answer(const State& state,
                          const Lease& lease,
                          const wire::LeaseReport& report,
                          Events& events) {
  if (!lease.change || !(report.milli || report.declined) || lease.slices.empty()) return;
  const Slice& before = lease.slices.front();
  SliceChanged changed{.id = lease.id,
                       .owner = lease.owner,
                       .milli = before.milli,
                       .vram = before.vram,
                       .declined = report.declined,
                       .at = std::min(report.at, state.now)};
  if (!report.declined) {
    changed.milli = lease.change->milli;
    changed.vram = lease.change->vram;
  }
  const Job* job = state.job(lease.job);
  // It holds quota for what it has: more from the moment that it was asked, less from now.
  if (job != nullptr && !is_over(job->state) &&
      (job->ask.milli_each != changed.milli || job->ask.vram_each != changed.vram))
    events.push_back(JobResliced{job->id, job->owner, changed.milli, changed.vram});
  events.push_back(changed);
}

Events overdue_changes(const State& state, Instant now, Instant& look_again) {
  Events events;
  const Capacity& capacity = *state.index.capacity;
  const auto look = [&](const Lease& lease, Instant since, Duration grace) {
    const Instant until = since + grace + kAnswerPatience;
    if (lease.revoked) return;
    if (until > now) {
      look_again = std::min(look_again, until);
      return;
    }
    LeaseRevoked revoked = revocation(state,
                                      lease,
                                      EndReason::kPreempted,
                                      "its node did not carry out a change of its slice in time",
                                      lease.promised_to);
    events.push_back(std::move(revoked));
  };
  for (const LeaseId id : capacity.promising()) {
    const Lease* lease = state.lease(id);
    if (lease == nullptr || !lease->live()) continue;
    if (lease->change) look(*lease, lease->changed, lease->change->grace);
    if (lease->parking == Parking::kAsked) look(*lease, lease->parked, kParkGrace);
  }
  return events;
}

void note_parking(State& state, Lease& lease, const wire::LeaseReport& report, Instant at) {
  const auto job = state.jobs.find(lease.job);
  if (job == state.jobs.end()) return;
  Capacity& capacity = *state.index.capacity;
  const bool paused = report.state == LeaseState::kPaused;
  if (lease.parking == Parking::kAsked && paused) {
    lease.parking = Parking::kParked;
    lease.parked = at;
    capacity.park(lease, job->second.ask, at);
    lease.promised_to = {};
    for (const Slice& slice : lease.slices) state.index.calendar->touched(slice.device);
  } else if (lease.parking == Parking::kAsked && report.declined) {
    lease.parking = Parking::kNone;
    lease.stiff = true;
    lease.promised_to = {};
    capacity.keep_promise(lease);
    capacity.changed();
  } else if (lease.parking == Parking::kReturning && paused && report.declined) {
    capacity.park(lease, job->second.ask, at);
    lease.parking = Parking::kParked;
    lease.changed = at;
  } else if (lease.parking == Parking::kReturning && report.state == LeaseState::kRunning) {
    lease.parking = Parking::kNone;
    lease.parked_for += at - lease.parked;
    lease.parked = at;
    // Charged from when it ran again.
    if (const auto meter = state.meters.find(lease.id); meter != state.meters.end())
      meter->second.metered_to = std::clamp(report.at, meter->second.metered_to, at);
  }
}

void apply(State& state, const Envelope&, const JobResliced& event) {
  Job& job = state.jobs.at(event.id);
  release_quota(state, job.owner, job.ask, job.hold);
  job.ask = job.ask.resliced(event.milli, event.vram);
  hold_quota(state, job.owner, job.ask, job.hold);
  job.version = state.sequence;
}

void apply(State& state, const Envelope& envelope, const SliceChangeAsked& event) {
  Lease& lease = state.leases.at(event.id);
  const Ask& ask = state.jobs.at(lease.job).ask;
  Capacity& capacity = *state.index.capacity;
  capacity.lift(lease, ask, envelope.at);
  lease.change = SliceChange{event.milli, event.vram, event.grace};
  lease.changed = envelope.at;
  lease.promised_to = event.promised_to;
  capacity.put_back(lease, ask, envelope.at);
  if (event.promised_to == JobId{}) return;
  capacity.promise(event.id);
  capacity.look_again(envelope.at + event.grace + kAnswerPatience);
}

void apply(State& state, const Envelope& envelope, const SliceChanged& event) {
  Lease& lease = state.leases.at(event.id);
  tally(state, lease, envelope.at);
  const Ask& ask = state.jobs.at(lease.job).ask;
  Capacity& capacity = *state.index.capacity;
  capacity.lift(lease, ask, envelope.at);
  lease.change.reset();
  lease.changed = envelope.at;
  lease.stiff = lease.stiff || event.declined;
  for (Slice& slice : lease.slices) {
    slice.milli = event.milli;
    slice.vram = event.vram;
  }
  capacity.put_back(lease, ask, envelope.at);
  capacity.keep_promise(lease);
  lease.promised_to = {};
  for (const Slice& slice : lease.slices) state.index.calendar->touched(slice.device);
  // The price of what it has now, from now on.
  if (const auto meter = state.meters.find(lease.id); meter != state.meters.end()) {
    meter->second.plan.milli = lease.gpu_milli();
    meter->second.metered_to = std::max(meter->second.metered_to, std::min(event.at, envelope.at));
  }
}

void apply(State& state, const Envelope& envelope, const LeaseParkAsked& event) {
  Lease& lease = state.leases.at(event.id);
  lease.parking = Parking::kAsked;
  lease.parked = envelope.at;
  lease.promised_to = event.promised_to;
  if (event.promised_to == JobId{}) return;
  state.index.capacity->promise(event.id);
  state.index.capacity->look_again(envelope.at + kParkGrace + kAnswerPatience);
}

void apply(State& state, const Envelope& envelope, const LeaseReturned& event) {
  Lease& lease = state.leases.at(event.id);
  tally(state, lease, envelope.at);
  state.index.capacity->unpark(lease, state.jobs.at(lease.job).ask, envelope.at);
  lease.parking = Parking::kReturning;
  for (const Slice& slice : lease.slices) state.index.calendar->touched(slice.device);
}

}  // namespace tranche::engine
