// SPDX-License-Identifier: Apache-2.0
#include "engine/health_steps.hpp"

#include <algorithm>
#include <set>

#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "wire/health_codes.hpp"

namespace tranche::engine {
namespace {

using policy::HealthAction;
using policy::JobFate;
using policy::LifecycleEvent;

constexpr Duration kWeek = std::chrono::hours(24 * 7);
constexpr Duration kDay = std::chrono::hours(24);
constexpr Duration kOurKill = std::chrono::seconds(10);

policy::HealthHistory history_of(const State& state,
                                 const Device& device,
                                 const wire::HealthSignal& signal,
                                 Instant at) {
  policy::HealthHistory history;
  std::set<PartyId> tenants;
  for (const SeenSignal& seen : device.record.signals) {
    if (seen.source == "ecc" && seen.code == wire::kEccRemapFailed) history.remap_failed = true;
    if (seen.source != signal.source || seen.code != signal.code) continue;
    if (at - seen.at <= kWeek) ++history.same_signal;
    if (at - seen.at <= kDay) tenants.insert(seen.tenants.begin(), seen.tenants.end());
  }
  for (const LeaseId id : state.index.capacity->leases_on(device.node)) {
    const Lease& lease = state.leases.at(id);
    for (const Slice& slice : lease.slices) {
      if (slice.device != device.id) continue;
      if (lease.live()) tenants.insert(lease.tenant);
      if (lease.revoked || (lease.ended != Instant{} && at - lease.ended <= kOurKill))
        history.after_our_kill = true;
    }
  }
  history.tenants_hit = static_cast<std::uint32_t>(tenants.size());
  history.remediations = static_cast<std::uint32_t>(
      std::count_if(device.record.remediations.begin(), device.record.remediations.end(), [&](Instant when) {
        return at - when <= kWeek;
      }));
  return history;
}

// How many nodes lost a device by themselves lately, this one included.
std::uint32_t departing_nodes(const State& state, NodeId node, Instant at, const Events& events) {
  std::set<NodeId> nodes{node};
  for (const Departure& one : state.health.departures)
    if (at - one.at <= state.health.policy.breaker_window) nodes.insert(one.node);
  for (const Event& event : events) {
    const auto* changed = std::get_if<DeviceStateChanged>(&event);
    if (changed == nullptr || changed->after != DeviceState::kDraining) continue;
    if (const Device* device = state.device(changed->id)) nodes.insert(device->node);
  }
  return static_cast<std::uint32_t>(nodes.size());
}

bool breaker_holds(const State& state, NodeId node, Instant at, Events& events) {
  if (state.health.breaker_open) return true;
  for (const Event& event : events)
    if (std::holds_alternative<BreakerChanged>(event)) return true;
  const HealthPolicy& policy = state.health.policy;
  std::uint32_t fleet = 0;
  for (const auto& [id, one] : state.nodes) fleet += one.state != NodeState::kRetired;
  const std::uint32_t most = std::max(policy.breaker_nodes, fleet * policy.breaker_percent / 100);
  const std::uint32_t leaving = departing_nodes(state, node, at, events);
  if (leaving <= most) return false;
  events.emplace_back(BreakerChanged{true,
                                     leaving,
                                     std::to_string(leaving) + " of " + std::to_string(fleet) +
                                         " nodes lost a device at once: nothing more is drained by itself"});
  return true;
}

Withdrawal withdrawal_of(const policy::HealthDecision& decision,
                         const wire::HealthSignal& signal,
                         Instant at,
                         WhenIdle next) {
  Withdrawal out{.next = next,
                 .cause = {.reason = decision.reason,
                           .signal = signal.source + " " + std::to_string(signal.code),
                           .table_version = decision.table_version},
                 .fault = std::min(signal.at == Instant{} ? at : signal.at, at)};
  if (decision.jobs == JobFate::kKept || decision.jobs == JobFate::kFailed) out.jobs = EndReason::kNone;
  if (decision.jobs == JobFate::kNodeInterrupted) out.jobs = EndReason::kNodeFault;
  if (decision.bill == policy::FaultBill::kCharged || decision.bill == policy::FaultBill::kNone)
    out.fault = {};
  out.since_checkpoint = decision.bill == policy::FaultBill::kNotSinceCheckpoint;
  return out;
}

bool has_moved(const Events& events, DeviceId device) {
  return std::any_of(events.begin(), events.end(), [&](const Event& event) {
    const auto* changed = std::get_if<DeviceStateChanged>(&event);
    return changed != nullptr && changed->id == device;
  });
}

// One that is being wiped has nobody to keep away: it is tested as soon as it is back.
void suspect(DeviceSteps& steps, const Device& device, const Cause& cause, Events& events) {
  if (steps.advance(LifecycleEvent::kSuspected, cause, events)) return;
  if (steps.state() == DeviceState::kScrubbing)
    events.emplace_back(DeviceMarked{device.id, WhenIdle::kTest, device.record.dedicated_only, false});
}

// What is due already is not made less by what comes after it: a device on its way to repair goes there.
WhenIdle at_least(const Device& device, WhenIdle next) {
  return std::max(device.record.when_idle, next);
}

void interrupt(const State& state, const Lease& lease, const Withdrawal& why, Events& events) {
  // One that was asked to end for another reason, and is saving its work, is hit by a fault all the same.
  if (lease.revoked && (is_platform_fault(lease.revoke_reason) || !is_platform_fault(why.jobs))) return;
  for (const Event& event : events)  // It has several devices, and was told with the first.
    if (const auto* told = std::get_if<LeaseRevoked>(&event); told != nullptr && told->id == lease.id) return;
  LeaseRevoked revoked =
      revocation(state, lease, why.jobs, "its device is taken out of service: " + why.cause.reason, JobId{});
  revoked.fault = why.since_checkpoint ? std::max(lease.checkpoint, lease.started) : why.fault;
  events.emplace_back(std::move(revoked));
}

// All members of a gang end with the one that was hit; that follows when it ends.
void interrupt_all(
    const State& state, const Device& device, const Withdrawal& why, bool gangs, Events& events) {
  for (const Lease* lease : leases_on(state, device)) {
    const Job* job = state.job(lease->job);
    const bool gang = job != nullptr && job->ask.instances > 1;
    if (!gangs || gang) interrupt(state, *lease, why, events);
  }
}

}  // namespace

void mend(DeviceSteps& steps, WhenIdle next, const Cause& cause, Events& events) {
  if (next == WhenIdle::kReset && steps.advance(LifecycleEvent::kResetOrdered, cause, events)) {
    steps.order(DeviceTask::kReset, TestLevel::kQuick, events);
    return;
  }
  if (next == WhenIdle::kRepair || next == WhenIdle::kReset)
    steps.advance(LifecycleEvent::kRepairOrdered, cause, events);
  steps.open_repair(cause.reason, events);
}

void append_drained(const State& state, const Device& device, Events& events) {
  const WhenIdle next = device.record.when_idle;
  DeviceSteps steps(state, device);
  steps.advance(LifecycleEvent::kDrained, {.reason = device.reason}, events);
  mend(steps, next == WhenIdle::kNothing ? WhenIdle::kReset : next, {.reason = device.reason}, events);
}

bool withdraw(const State& state, const Device& device, const Withdrawal& why, Instant at, Events& events) {
  DeviceSteps steps(state, device);
  const WhenIdle next = at_least(device, why.next);
  if (why.automatic && breaker_holds(state, device.node, at, events)) {
    Cause kept = why.cause;
    kept.reason += "; the breaker is open, so what runs may stay";
    suspect(steps, device, kept, events);
    // What it needs is not forgotten: it is done when the breaker is closed and nobody is on it.
    if (steps.state() == DeviceState::kSuspect)
      events.emplace_back(DeviceMarked{device.id, next, device.record.dedicated_only, false});
    return false;
  }
  if (steps.state() == DeviceState::kScrubbing) {  // Between two tenants: nobody is on it.
    steps.advance(LifecycleEvent::kScrubFailed, why.cause, events);
    events.emplace_back(
        DeviceMarked{device.id, WhenIdle::kNothing, device.record.dedicated_only, why.automatic});
    mend(steps, next, why.cause, events);
    return true;
  }
  const bool out_already = device.state == DeviceState::kDraining;
  if (!out_already && !steps.advance(LifecycleEvent::kDrainOrdered, why.cause, events)) return false;
  events.emplace_back(DeviceMarked{device.id, next, device.record.dedicated_only, why.automatic});
  if (why.jobs != EndReason::kNone) interrupt_all(state, device, why, false, events);
  if (!leases_on(state, device).empty()) return true;
  steps.advance(LifecycleEvent::kDrained, why.cause, events);
  mend(steps, next, why.cause, events);
  return true;
}

Device as_decided(const Device& device, const Events& events) {
  Device out = device;
  for (const Event& event : events) {
    const auto* changed = std::get_if<DeviceStateChanged>(&event);
    if (changed == nullptr || changed->id != device.id) continue;
    out.state = changed->after;
    out.reason = changed->reason;
    out.record.tested = changed->tested;
    out.record.scrubbed = changed->scrubbed;
    out.record.resets = changed->resets;
    out.record.probation = changed->probation;
  }
  return out;
}

bool lose(const State& state, const Device& device, const Cause& cause, Events& events) {
  DeviceSteps steps(state, device);
  if (!steps.advance(LifecycleEvent::kAgentSilent, cause, events)) return false;
  if (device.record.when_idle == WhenIdle::kRepair)
    events.emplace_back(DeviceMarked{device.id, WhenIdle::kRepair, device.record.dedicated_only, false});
  return true;
}

void find_again(
    const State& state, const Device& device, TestLevel level, const Cause& cause, Events& events) {
  if (device.record.when_idle == WhenIdle::kRepair) return;  // It goes there when nobody is on it.
  if (!leases_on(state, device).empty()) {
    events.emplace_back(DeviceMarked{device.id, WhenIdle::kTest, device.record.dedicated_only, false});
    return;
  }
  DeviceSteps steps(state, device);
  if (steps.advance(LifecycleEvent::kAgentBack, cause, events))
    steps.order(DeviceTask::kAccept, level, events);
}

std::vector<DeviceId> concerned_by(const State& state, const Node& node, const wire::HealthSignal& signal) {
  constexpr std::string_view kPlace = "pci:";
  const bool by_place = signal.uuid.starts_with(kPlace);
  std::vector<DeviceId> all, of_its_maker;
  for (const DeviceId id : node.devices) {
    const Device& device = state.devices.at(id);
    if (by_place && device.facts.pci_address.starts_with(signal.uuid.substr(kPlace.size()))) return {id};
    if (device.facts.uuid == signal.uuid && !signal.uuid.empty()) return {id};
    if (device.state == DeviceState::kRetired) continue;
    all.push_back(id);
    if (device.facts.vendor == wire::GpuVendor::kNvidia) of_its_maker.push_back(id);
  }
  if (by_place) return {};  // A device that is not ours: what it does is no fault of its neighbours.
  return signal.source == "xid" && !of_its_maker.empty() ? of_its_maker : all;
}

const policy::HealthTable& table_for(const State& state, const Device& device) {
  const policy::HealthTable& builtin = policy::health_table(device.facts.vendor);
  for (const policy::HealthTable& table : state.health.policy.tables)
    if (table.family == builtin.family) return table;
  return builtin;
}

void append_signal_steps(const State& state,
                         const Envelope& envelope,
                         const Node& node,
                         const Device& device,
                         const wire::HealthSignal& signal,
                         Events& events) {
  const policy::HealthHistory history = history_of(state, device, signal, envelope.at);
  const auto decision = policy::decide_health(table_for(state, device), signal, history);
  auto& seen = std::get<HealthSignalled>(events.back());
  seen.action = decision.action;
  seen.table_version = decision.table_version;
  seen.tell_tenant = decision.tell_tenant;
  for (const Lease* lease : leases_on(state, device)) seen.tenants.push_back(lease->tenant);
  if (has_moved(events, device.id)) return;  // With a neighbour, by the same signal.
  const auto out = [&](WhenIdle next) { return withdrawal_of(decision, signal, envelope.at, next); };
  const Cause cause = out(WhenIdle::kNothing).cause;
  DeviceSteps steps(state, device);
  const bool back = signal.source == "telemetry" && signal.code == wire::kDeviceBack;
  if (back && device.state == DeviceState::kLost)
    return find_again(state, device, state.health.policy.validation, cause, events);
  const auto later = [&](WhenIdle wanted) {
    const WhenIdle next = at_least(device, wanted);
    events.emplace_back(DeviceMarked{device.id, next, device.record.dedicated_only, false});
    // What its jobs lost is not theirs to pay, though the device goes on for others.
    if (decision.jobs == JobFate::kInterrupted) interrupt_all(state, device, out(next), false, events);
    if (is_idle(state, device)) {
      Device marked = device;
      marked.record.when_idle = next;
      marked.state = steps.state();
      marked.reason = decision.reason;
      append_when_idle(state, marked, {}, events);
    }
  };
  switch (decision.action) {
    case HealthAction::kIgnore:
    case HealthAction::kNote:
    case HealthAction::kDirective:
      return;
    case HealthAction::kResetWhenIdle:
      return later(WhenIdle::kReset);
    case HealthAction::kTestWhenIdle:
      suspect(steps, device, cause, events);
      if (steps.state() == DeviceState::kSuspect) later(WhenIdle::kTest);
      return;
    case HealthAction::kSuspect:
      suspect(steps, device, cause, events);
      return;
    case HealthAction::kDedicatedOnly:
      events.emplace_back(DeviceMarked{device.id, device.record.when_idle, true, false});
      return;
    case HealthAction::kLeaveGangs:
      suspect(steps, device, cause, events);
      interrupt_all(state, device, out(WhenIdle::kNothing), true, events);
      return;
    case HealthAction::kDrainAndReset:
      withdraw(state, device, out(WhenIdle::kReset), envelope.at, events);
      return;
    case HealthAction::kDrainNode:
      for (const DeviceId id : node.devices) {
        if (has_moved(events, id)) continue;
        Withdrawal withdrawal = out(WhenIdle::kQuarantine);
        if (id != device.id)
          withdrawal.cause.reason = text(device.id) + " of its node: " + withdrawal.cause.reason;
        withdraw(state, state.devices.at(id), withdrawal, envelope.at, events);
      }
      return;
    case HealthAction::kQuarantine:
      withdraw(state, device, out(WhenIdle::kQuarantine), envelope.at, events);
      return;
    case HealthAction::kRepair:
      withdraw(state, device, out(WhenIdle::kRepair), envelope.at, events);
      return;
    case HealthAction::kLost:
      if (lose(state, device, cause, events))
        interrupt_all(state, device, out(WhenIdle::kNothing), false, events);
      else if (device.record.when_idle == WhenIdle::kTest)  // Lost again, before it could be tested.
        events.emplace_back(DeviceMarked{device.id, WhenIdle::kNothing, device.record.dedicated_only, false});
      return;
  }
}

}  // namespace tranche::engine
