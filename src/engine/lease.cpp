// SPDX-License-Identifier: Apache-2.0
#include "engine/lease.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "engine/admission.hpp"
#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/device_life.hpp"
#include "engine/lease_meter.hpp"
#include "engine/slice_change.hpp"
#include "engine/spend.hpp"
#include "engine/workloads.hpp"

namespace tranche::engine {
namespace {

// A message of the link counts once, and only from the node whose lease it is.
bool is_new(const Node& node, std::uint64_t sequence) {
  return sequence == 0 || sequence > node.received;
}

void note_received(State& state, NodeId id, std::uint64_t sequence) {
  Node& node = state.nodes.at(id);
  node.received = std::max(node.received, sequence);
}

Refusal stale_epoch(const wire::LeaseReport& report) {
  return {.reason = Reason::kStale,
          .rule = "epoch",
          .message = text(report.lease) + " is not, or no longer, a lease of this node",
          .fix = "end what runs under it"};
}

// What its node says, and no more than there can be: devices were not had for longer than since the grant.
// Over the whole lease, because a long kernel is counted when it ends.
wire::MeterRecord bounded(
    const State& state, Instant now, const Lease& lease, LeaseUse& counted, wire::MeterRecord said) {
  if (said.sequence <= counted.sequence) return said;  // Told again: it counts for nothing.
  const Duration had = std::max(now - lease.granted, Duration{});
  Int128 nanoseconds = 0, byte_seconds = 0;
  for (const Slice& slice : lease.slices) {
    nanoseconds += Int128{had.count()} * 1000;
    byte_seconds += Int128{state.devices.at(slice.device).facts.vram.count} *
                    std::chrono::ceil<std::chrono::seconds>(had).count();
  }
  const auto at_most = [](std::int64_t& value, std::int64_t& sum, Int128 most) {
    value = static_cast<std::int64_t>(std::clamp<Int128>(value, 0, std::max<Int128>(most - sum, 0)));
    sum += value;
  };
  at_most(said.device_nanoseconds, counted.device_nanoseconds, nanoseconds);
  at_most(said.vram_byte_seconds, counted.vram_byte_seconds, byte_seconds);
  for (std::int64_t* value : {&said.energy_millijoules, &said.copied_bytes, &said.network_bytes})
    *value = std::max<std::int64_t>(*value, 0);
  return said;
}

JobState job_state(LeaseState state) {
  switch (state) {
    case LeaseState::kRunning:
      return JobState::kRunning;
    case LeaseState::kPaused:
      return JobState::kPaused;
    case LeaseState::kStopping:
      return JobState::kStopping;
    default:
      return JobState::kStarting;
  }
}

// Jobs that said how long they may do nothing on their devices, and did nothing for that long.
void append_idle_stops(const State& state, const std::vector<wire::MeterRecord>& records, Events& events) {
  std::set<LeaseId> seen;
  for (const wire::MeterRecord& record : records) {
    const Lease& lease = state.leases.at(record.lease);
    const Job* job = state.job(lease.job);
    if (job == nullptr || job->ask.idle == Duration{} || lease.revoked || !lease.live()) continue;
    const bool busy = std::any_of(records.begin(), records.end(), [&](const wire::MeterRecord& other) {
      return other.lease == lease.id && other.device_nanoseconds > 0;
    });
    const Instant since = std::max({lease.started, lease.use.busy_until, lease.parked});
    if (busy || record.to - since < job->ask.idle || !seen.insert(lease.id).second) continue;
    events.push_back(revocation(state,
                                lease,
                                EndReason::kIdleLimit,
                                "it did not use its devices for " + text(job->ask.idle),
                                JobId{}));
  }
}

// Its tenant uses the device alone, and the node wipes before it lets anybody else in.
void leave_unwiped(State& state, NodeId node, LeaseId id, Instant at) {
  const auto found = state.leases.find(id);
  if (found == state.leases.end() || found->second.node != node || found->second.live()) return;
  Lease& lease = found->second;
  const Job* job = state.job(lease.job);
  if (!lease.holds_slices() || job == nullptr) return;
  tally(state, lease, at);
  for (const Slice& slice : lease.slices) {
    Device& device = state.devices.at(slice.device);
    device.record.owed.push_back(id);
    state.index.capacity->refresh_device(state, device);
  }
  release_slices(state, lease, job->ask);
  lease.left = true;
}

void note_paid(State& state, const Lease& lease) {
  for (const Slice& slice : lease.slices) {
    Device& device = state.devices.at(slice.device);
    if (std::erase(device.record.owed, lease.id) != 0) state.index.capacity->refresh_device(state, device);
  }
}

// GPU time of a period is counted where work ended; a fault of the platform costs nobody his share.
void note_gpu_time(State& state, const Lease& lease, EndReason reason, Instant at) {
  if (lease.slices.empty() || lease.started == Instant{} || is_platform_fault(reason)) return;
  const Int128 micros = Int128{lease.gpu_milli()} * std::max(at - lease.started, Duration{}).count();
  add_gpu_seconds(state, lease.owner, static_cast<std::int64_t>((micros + 999'999'999) / 1'000'000'000), at);
}

}  // namespace

void apply(State& state, const Envelope& envelope, const LeaseGranted& event) {
  Job& job = state.jobs.at(event.job);
  for (const Slice& slice : event.slices) tally(state, slice.device, envelope.at);
  Lease lease{.id = event.id,
              .job = event.job,
              .attempt = event.attempt,
              .rank = event.rank,
              .node = event.node,
              .epoch = event.epoch,
              .owner = event.owner,
              .tenant = event.tenant,
              .isolation = event.isolation,
              .trust_group = event.trust_group,
              .slices = event.slices,
              .granted = envelope.at,
              .booking = event.booking};
  Capacity& capacity = *state.index.capacity;
  if (event.rank == 0) {
    capacity.dequeue(state, job);
    job.leases.clear();
    job.attempts = event.attempt;
    job.state = JobState::kStarting;
    job.started = {};
  }
  job.leases.push_back(event.id);
  job.version = state.sequence;
  if (lease.booking != ClaimId{}) capacity.give_way(state, lease.slices);
  for (const Slice& slice : event.slices) {
    Device& device = state.devices.at(slice.device);
    if (device.record.kept_for != PartyId{}) {
      device.record.kept_for = {};
      capacity.refresh_device(state, device);  // Also ends what its last lease promised.
      device.record.left_by = {};
    }
    for (const std::uint64_t record : {device.record.test_record, device.record.quick_record})
      if (record != 0) lease.tested.push_back(record);
  }
  capacity.take(lease, job.ask);
  place_volumes(state, job, event.node);
  if (event.rank == 0) note_foretold_start(state, event.job, envelope.at);
  state.next_lease = std::max(state.next_lease, event.id.value + 1);
  const auto at = state.leases.emplace_hint(state.leases.end(), event.id, std::move(lease));
  if (at->second.booking != ClaimId{}) capacity.refresh_holds(state, at->second);
  for (const Slice& slice : at->second.slices) state.index.calendar->touched(slice.device);
}

void apply(State& state, const Envelope&, const LeaseRevoked& event) {
  Lease& lease = state.leases.at(event.id);
  lease.revoked = true;
  lease.revoke_reason = event.reason;
  lease.promised_to = event.promised_to;
  lease.fault = event.fault;
  lease.goes_to = event.goes_to;
  if (event.promised_to != JobId{}) state.index.capacity->promise(event.id);
  if (const auto job = state.jobs.find(lease.job); job != state.jobs.end() && !is_over(job->second.state)) {
    job->second.state = JobState::kStopping;
    job->second.version = state.sequence;
  }
}

Decision decide(const State& state, const Envelope& envelope, const ReportLease& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (!is_new(*node, command.sequence)) return Events{};
  const Lease* lease = state.lease(command.report.lease);
  if (lease == nullptr || lease->node != node->id || lease->epoch != command.report.epoch || !lease->live())
    return refuse(stale_epoch(command.report));
  if (wire::is_over(command.report.state))
    return lease_over(state, envelope, *lease, command.report, command.sequence);
  Events events{LeaseReported{node->id, command.sequence, command.report, lease->owner}};
  append_change_answer(state, *lease, command.report, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const LeaseReported& event) {
  note_received(state, event.node, event.sequence);
  Lease& lease = state.leases.at(event.report.lease);
  tally(state, lease, envelope.at);
  const bool was_running = lease.started != Instant{};
  lease.state = event.report.state;
  if (event.report.checkpoint) lease.checkpoint = *event.report.checkpoint;
  if (lease.state == LeaseState::kRunning && !was_running) {
    lease.started = envelope.at;
    // Charged from when it ran, not from when its hold was taken.
    if (const auto meter = state.meters.find(lease.id); meter != state.meters.end())
      meter->second.metered_to = std::clamp(event.report.at, lease.granted, envelope.at);
  }
  const auto found = state.jobs.find(lease.job);
  if (lease.live()) {
    if (found == state.jobs.end() || is_over(found->second.state)) return;
    Job& job = found->second;
    if (job.state != JobState::kStopping) job.state = job_state(lease.state);
    if (lease.state == LeaseState::kRunning && job.started == Instant{}) job.started = envelope.at;
    job.version = state.sequence;
    if (lease.parking != Parking::kNone) note_parking(state, lease, event.report, envelope.at);
    if (event.report.port != 0) state.work.doors[lease.id] = {event.report.port, event.report.port_sealed};
    if (lease.state == LeaseState::kRunning) note_job_running(state, job, envelope.at);
    return;
  }
  state.work.doors.erase(lease.id);
  note_saved(state, lease);
  lease.ended = envelope.at;
  lease.reason = event.report.reason;
  lease.exit_code = event.report.exit_code;
  lease.exit_signal = event.report.exit_signal;
  lease.message = event.report.message;
  Capacity& capacity = *state.index.capacity;
  capacity.ended(lease, envelope.at);
  note_gpu_time(state, lease, event.report.reason, envelope.at);
  if (found != state.jobs.end()) state.index.demand->ended(lease, found->second);
  // Without a device there is nothing to wipe; a refused lease never touched one.
  // A parked one left its devices clean when it went.
  if (lease.slices.empty() || lease.state == LeaseState::kRefused || lease.parking == Parking::kParked)
    lease.scrubbed = true;
  if (lease.scrubbed && found != state.jobs.end()) release_slices(state, lease, found->second.ask);
}

Decision decide(const State& state, const Envelope& envelope, const ReportMeters& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (!is_new(*node, command.sequence)) return Events{};
  UsageMetered metered{node->id, command.sequence, {}};
  std::map<LeaseId, LeaseUse> counted;
  for (const wire::MeterRecord& record : command.records) {
    const Lease* lease = state.lease(record.lease);
    if (lease != nullptr && lease->node == node->id && lease->epoch == record.epoch &&
        record.from <= record.to)
      metered.records.push_back(bounded(
          state, envelope.at, *lease, counted.try_emplace(lease->id, lease->use).first->second, record));
  }
  Events events;
  append_charges(state, envelope.at, metered.records, events);
  append_idle_stops(state, metered.records, events);
  events.insert(events.begin(), std::move(metered));
  return events;
}

void apply(State& state, const Envelope&, const UsageMetered& event) {
  note_received(state, event.node, event.sequence);
  for (const wire::MeterRecord& record : event.records) {
    LeaseUse& use = state.leases.at(record.lease).use;
    if (record.sequence <= use.sequence) continue;
    use.sequence = record.sequence;
    use.until = std::max(use.until, record.to);
    use.device_nanoseconds += record.device_nanoseconds;
    use.vram_byte_seconds += record.vram_byte_seconds;
    use.energy_millijoules += record.energy_millijoules;
    use.copied_bytes += record.copied_bytes;
    use.network_bytes += record.network_bytes;
    if (record.device_nanoseconds > 0) use.busy_until = std::max(use.busy_until, record.to);
  }
}

Decision decide(const State& state, const Envelope& envelope, const KeepReceipts& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (!is_new(*node, command.sequence)) return Events{};
  Events events{ReceiptsKept{node->id, command.sequence, command.receipts}};
  append_receipt_steps(state, *node, command.receipts, envelope.at, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const ReceiptsKept& event) {
  note_received(state, event.node, event.sequence);
  note_receipts(state, event.node, event.receipts);
  for (const wire::LimitReceipt& receipt : event.receipts.limits) {
    const auto found = state.leases.find(receipt.lease);
    if (found == state.leases.end() || found->second.node != event.node) continue;
    std::vector<std::uint64_t>& kept = found->second.receipts;
    if (kept.empty() || kept.back() != state.sequence) kept.push_back(state.sequence);
  }
  std::map<LeaseId, std::size_t> clean;  // Slices of each lease that were proven clean.
  for (const wire::ScrubReceipt& receipt : event.receipts.scrubs) {
    clean[receipt.lease] += wire::is_clean(receipt) ? 1U : 0U;
    if (receipt.deferred) leave_unwiped(state, event.node, receipt.lease, envelope.at);
  }
  for (const wire::BehaviourRecord& record : event.receipts.behaviours) {
    const auto found = state.leases.find(record.lease);
    if (found != state.leases.end() && found->second.node == event.node) found->second.behaviour = record;
  }
  for (const auto& [id, slices] : clean) {
    const auto found = state.leases.find(id);
    if (found == state.leases.end() || found->second.node != event.node) continue;
    Lease& lease = found->second;
    const bool whole = slices >= lease.slices.size();
    if (lease.scrubbed || (!whole && !lease.left)) continue;  // Whole devices are wiped one by one.
    if (lease.receipts.empty() || lease.receipts.back() != state.sequence)
      lease.receipts.push_back(state.sequence);
    if (lease.left) {
      lease.scrubbed = whole;
      if (whole) note_paid(state, lease);
      continue;
    }
    tally(state, lease, envelope.at);
    lease.scrubbed = true;  // Partitions are wiped before their end is told: then that frees them.
    if (lease.live()) continue;
    if (const Job* job = state.job(lease.job)) release_slices(state, lease, job->ask);
  }
}

Decision decide(const State& state, const Envelope& envelope, const NoteHealth& command) {
  const Node* node = state.node(command.node);
  if (node == nullptr) return refuse(not_found());
  if (!is_new(*node, command.sequence)) return Events{};
  Events events;
  for (const DeviceId id : concerned_by(state, *node, command.signal)) {
    events.emplace_back(HealthSignalled{node->id, command.sequence, id, command.signal});
    append_signal_steps(state, envelope, *node, state.devices.at(id), command.signal, events);
  }
  if (events.empty()) events.emplace_back(HealthSignalled{node->id, command.sequence, {}, command.signal});
  return events;
}

void apply(State& state, const Envelope&, const HealthSignalled& event) {
  note_received(state, event.node, event.sequence);
  note_signal(state, event);
}

void apply(State& state, const Envelope&, const JobRequeued& event) {
  Job& job = state.jobs.at(event.id);
  job.state = JobState::kPending;
  job.reason = event.reason;
  job.message = event.message;
  job.not_before = event.not_before;
  if (event.progressed) job.faults = 0;
  job.faults += is_platform_fault(event.reason);
  job.errors += is_own_error(event.reason);
  job.version = state.sequence;
  state.index.capacity->enqueue(state, job);
  WorkIndex& work = *state.index.work;  // A chunk may have had nothing left to do.
  if (const auto group = work.group_of.find(job.id); group != work.group_of.end())
    work.groups_due.insert(group->second);
}

void apply(State& state, const Envelope&, const JobHeld& event) {
  Job& job = state.jobs.at(event.id);
  job.state = JobState::kHeld;
  job.reason = event.reason;
  job.exit_code = event.exit_code;
  job.exit_signal = event.exit_signal;
  job.message = event.message;
  job.faults += 1;
  job.version = state.sequence;
}

void apply(State& state, const Envelope& envelope, const HeldJobReleased& event) {
  Job& job = state.jobs.at(event.id);
  job.state = JobState::kPending;
  job.not_before = envelope.at;
  job.faults = 0;
  job.version = state.sequence;
  state.index.capacity->enqueue(state, job);
}

void apply(State& state, const Envelope&, const JobResized& event) {
  Job& job = state.jobs.at(event.id);
  release_quota(state, job.owner, job.ask, job.hold);
  job.ask = job.ask.resized(event.nodes);
  hold_quota(state, job.owner, job.ask, job.hold);
  job.version = state.sequence;
}

void apply(State& state, const Envelope&, const JobStopRequested& event) {
  Job& job = state.jobs.at(event.id);
  job.stop_requested = true;
  job.state = JobState::kStopping;
  job.version = state.sequence;
}

}  // namespace tranche::engine
