// SPDX-License-Identifier: Apache-2.0
#include "engine/device_life.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/attempt.hpp"
#include "engine/calendar.hpp"
#include "engine/decide.hpp"
#include "engine/health_steps.hpp"
#include "engine/schedule.hpp"

namespace tranche::engine {
namespace {

using policy::LifecycleEvent;

policy::DeviceLife life_of(const Device& device) {
  return {.state = device.state,
          .tested = device.record.tested,
          .scrubbed = device.record.scrubbed,
          .resets = device.record.resets,
          .probation = device.record.probation};
}

// Orders and repairs of one decision are numbered after those that stand in its events already.
template <class E>
std::uint64_t count_of(const Events& events) {
  return static_cast<std::uint64_t>(std::count_if(
      events.begin(), events.end(), [](const Event& one) { return std::holds_alternative<E>(one); }));
}

// Later steps of what a signal began name it as the first one did.
Cause completed(const State& state, const Device* device, Cause cause) {
  if (cause.actor == PartyId{}) cause.actor = kPlatform;
  if (device == nullptr) {
    if (cause.table_version.empty())
      cause.table_version = policy::health_table(wire::GpuVendor::kAny).version;
    return cause;
  }
  const std::vector<SeenSignal>& seen = device->record.signals;
  for (auto one = seen.rbegin(); cause.signal.empty() && one != seen.rend(); ++one) {
    const std::string name = one->source + " " + std::to_string(one->code);
    if (cause.reason.find(name + ": ") == std::string::npos) continue;
    cause.signal = name;
    if (cause.table_version.empty()) cause.table_version = one->table_version;
  }
  if (cause.table_version.empty()) cause.table_version = table_for(state, *device).version;
  return cause;
}

}  // namespace

DeviceSteps::DeviceSteps(const State& state, const Device& device)
    : state_(state), id_(device.id), life_(life_of(device)) {}

DeviceSteps::DeviceSteps(const State& state, DeviceId fresh, NodeId) : state_(state), id_(fresh) {}

bool DeviceSteps::advance(LifecycleEvent event, const Cause& cause, Events& events) {
  const auto after = policy::advance(life_, event);
  if (!after) return false;
  const Cause whole = completed(state_, state_.device(id_), cause);
  events.emplace_back(DeviceStateChanged{.id = id_,
                                         .before = life_.state,
                                         .after = after->state,
                                         .reason = whole.reason,
                                         .tested = after->tested,
                                         .scrubbed = after->scrubbed,
                                         .resets = after->resets,
                                         .probation = after->probation,
                                         .signal = whole.signal,
                                         .table_version = whole.table_version,
                                         .actor = whole.actor});
  life_ = *after;
  return true;
}

void DeviceSteps::order(DeviceTask task, TestLevel level, Events& events, std::uint8_t tries) {
  events.emplace_back(
      DeviceOrdered{id_, state_.health.next_order + count_of<DeviceOrdered>(events), task, level, tries});
}

void DeviceSteps::order_wipe(LeaseId lease, Events& events) {
  events.emplace_back(DeviceOrdered{.device = id_,
                                    .order = state_.health.next_order + count_of<DeviceOrdered>(events),
                                    .task = DeviceTask::kWipe,
                                    .lease = lease});
}

void DeviceSteps::open_repair(const std::string& reason, Events& events) {
  for (const auto& [id, repair] : state_.repairs)
    if (repair.device == id_ && !is_closed(repair.state)) return;  // One at a time.
  for (const Event& event : events)
    if (const auto* opened = std::get_if<RepairOpened>(&event); opened != nullptr && opened->device == id_)
      return;
  events.emplace_back(RepairOpened{state_.health.next_repair + count_of<RepairOpened>(events), id_, reason});
}

std::vector<const Lease*> leases_on(const State& state, const Device& device, LeaseId without) {
  std::vector<const Lease*> out;
  for (const LeaseId id : state.index.capacity->leases_on(device.node)) {
    const Lease& lease = state.leases.at(id);
    const bool here = std::any_of(lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) {
      return slice.device == device.id;
    });
    if (here && lease.live() && id != without) out.push_back(&lease);
  }
  return out;
}

bool is_idle(const State& state, const Device& device, LeaseId without) {
  for (const LeaseId id : state.index.capacity->leases_on(device.node)) {
    const Lease& lease = state.leases.at(id);
    if (id == without || !lease.holds_slices()) continue;
    for (const Slice& slice : lease.slices)
      if (slice.device == device.id) return false;
  }
  return true;
}

namespace {

// People need no fractions of a second.
std::string to_the_second(Instant at) {
  return text(Instant(std::chrono::floor<std::chrono::seconds>(at)));
}

// The window that keeps the device free now, or else the next one.
std::string maintenance_words(const State& state, const Device& device) {
  const CalendarClaim* next = nullptr;
  for (const CalendarClaim& claim : state.index.calendar->claims_on(device.id)) {
    const Booking* booking = state.booking(claim.claim);
    if (booking == nullptr || booking->kind != ClaimKind::kMaintenance || claim.to <= state.now) continue;
    if (next == nullptr || claim.from < next->from) next = &claim;
  }
  if (next == nullptr) return {};
  std::string words = next->from <= state.now ? "planned maintenance, ends " : "maintenance from ";
  if (next->from > state.now) words += to_the_second(next->from) + " to ";
  words += to_the_second(next->to);
  return words + ": " + state.booking(next->claim)->name;
}

// How thoroughly, since when, and what it took others of its model.
std::string test_words(const State& state,
                       const Device& device,
                       const std::string& progress,
                       std::string words) {
  const DeviceRecord& record = device.record;
  if (record.order == 0) return words;
  if (state.nodes.at(device.node).state != NodeState::kReady) return words + ", when its node is back";
  words += " (" + std::string(wire::name_of(record.level));
  if (!progress.empty()) words += ", " + progress;
  words += ", since " + to_the_second(device.since);
  Duration longest{};
  for (const auto& [id, peer] : state.devices)
    if (id != device.id && peer.facts.model == device.facts.model && peer.record.last_test &&
        peer.record.last_test->level == record.level)
      longest = std::max(longest, peer.record.last_test->took);
  if (longest > Duration{})
    words += "; others of its model took up to " +
             text(Duration(std::chrono::ceil<std::chrono::seconds>(longest)));
  return words + ")";
}

// What the last test found below what it should be, if anything.
std::string warning_words(const Device& device) {
  const auto& test = device.record.last_test;
  return test && test->verdict == wire::Verdict::kWarning ? "; " + finding_of(*test) : std::string();
}

std::string state_words(const State& state, const Device& device, const std::string& progress) {
  const auto because = [&](std::string words) {
    return device.reason.empty() ? words : words + ": " + device.reason;
  };
  const bool simulated = device.facts.simulated;
  switch (device.state) {
    case DeviceState::kNew:
    case DeviceState::kAccepting:
      return test_words(state, device, progress, "being tested before use");
    case DeviceState::kHealthy:
      return simulated ? "healthy (simulated: nothing was tested)" : "healthy" + warning_words(device);
    case DeviceState::kScrubbing:
      return device.record.order != 0 && device.record.task == DeviceTask::kAccept
                 ? test_words(state, device, progress, "preparing: being wiped and tested")
                 : "preparing: being wiped and tested";
    case DeviceState::kSuspect:
      return because("degraded, being watched");
    case DeviceState::kDraining: {
      std::string words = "draining";
      Instant ends{};
      for (const Lease* lease : leases_on(state, device)) {
        const Job* job = lease->revoked ? state.job(lease->job) : nullptr;
        ends = std::max(ends, job != nullptr ? device.since + grace_of(*job) : expected_end(state, *lease));
      }
      if (ends != Instant{} && ends < Instant::max()) words += ", ends " + to_the_second(ends);
      return because(words);
    }
    case DeviceState::kQuarantined:
      return because("out of service");
    case DeviceState::kResetting:
      return "repairing: reset " + std::to_string(device.record.resets) + " of " +
             std::to_string(policy::kResetsMax);
    case DeviceState::kValidating:
      return test_words(state, device, progress, "being tested before it comes back");
    case DeviceState::kProbation:
      return "on probation: takes work that may be stopped" + warning_words(device);
    case DeviceState::kInRepair: {
      std::string words = "hardware repair";
      for (const auto& [id, repair] : state.repairs) {
        if (repair.device != device.id || is_closed(repair.state)) continue;
        if (!repair.ticket.empty()) words = "hardware repair, ticket " + repair.ticket;
        if (repair.expected == Instant{}) continue;
        words += ", expected " + to_the_second(repair.expected);
      }
      return because(words);
    }
    case DeviceState::kMaintenance:
      return because("planned maintenance");
    case DeviceState::kRetired:
      return because("retired");
    case DeviceState::kLost:
      return because("unreachable");
  }
  return {};
}

}  // namespace

std::string health_words(const State& state, const Device& device, const std::string& progress) {
  const std::string words = state_words(state, device, progress);
  const std::string planned = maintenance_words(state, device);
  if (planned.empty() || device.state == DeviceState::kRetired) return words;
  const bool alone = device.state == DeviceState::kHealthy || device.state == DeviceState::kMaintenance;
  return alone && planned.starts_with("planned") ? planned : words + "; " + planned;
}

namespace {

// Lost, and its last job has ended: it goes to the repair that it was taken out for, or, where it was heard
// again, to its tests.
void append_found(const State& state, const Device& device, Events& events) {
  const WhenIdle next = device.record.when_idle;
  DeviceSteps steps(state, device);
  if (next == WhenIdle::kRepair) {
    std::string reason = device.reason;
    for (const auto& [id, repair] : state.repairs)
      if (repair.device == device.id && !is_closed(repair.state)) reason = repair.reason;
    if (steps.advance(LifecycleEvent::kRepairOrdered, {.reason = reason}, events))
      steps.open_repair(reason, events);
  } else if (next == WhenIdle::kTest && state.nodes.at(device.node).state == NodeState::kReady) {
    if (steps.advance(LifecycleEvent::kAgentBack, {.reason = "it answers again"}, events))
      steps.order(DeviceTask::kAccept, state.health.policy.validation, events);
  }
}

}  // namespace

void append_when_idle(const State& state, const Device& device, LeaseId without, Events& events) {
  if (!leases_on(state, device, without).empty()) return;
  if (device.state == DeviceState::kDraining) return append_drained(state, device, events);
  if (device.state == DeviceState::kLost) return append_found(state, device, events);
  const WhenIdle next = device.record.when_idle;
  if (next == WhenIdle::kNothing || !is_idle(state, device, without)) return;
  DeviceSteps steps(state, device);
  if (next == WhenIdle::kTest) {
    const bool suspect = device.state == DeviceState::kSuspect;
    if (steps.advance(suspect ? LifecycleEvent::kCleared : LifecycleEvent::kTenantLeft,
                      {.reason = "free, and tested now: " + device.reason},
                      events))
      steps.order(DeviceTask::kAccept, state.health.policy.validation, events);
    return;
  }
  if (state.health.breaker_open) return;  // Not by itself.
  if (!steps.advance(LifecycleEvent::kDrainOrdered, {.reason = device.reason}, events)) return;
  steps.advance(LifecycleEvent::kDrained, {.reason = device.reason}, events);
  mend(steps, next, {.reason = device.reason}, events);
}

void append_left(const State& state, const Lease& lease, Events& events) {
  for (const Slice& slice : lease.slices) {
    const Device* device = state.device(slice.device);
    if (device == nullptr) continue;
    if (device->state == DeviceState::kDraining || device->record.when_idle != WhenIdle::kNothing)
      append_when_idle(state, *device, lease.id, events);
  }
}

void append_health_due(const State& state, Instant at, Events& events) {
  constexpr std::size_t kMost = 256;
  const HealthPolicy& policy = state.health.policy;
  std::size_t moved = 0;
  for (const auto& [id, device] : state.devices) {
    if (moved == kMost) return;
    const bool suspect = device.state == DeviceState::kSuspect;
    const bool probation = device.state == DeviceState::kProbation;
    const bool waits = device.record.when_idle != WhenIdle::kNothing;
    if (!suspect && !probation && !waits && device.state != DeviceState::kDraining) continue;
    const std::size_t before = events.size();
    if (waits || device.state == DeviceState::kDraining) append_when_idle(state, device, {}, events);
    if (events.size() > before) {
      ++moved;
      continue;
    }
    if (waits) continue;  // Time alone does not mend it.
    const Instant began =
        probation && device.record.watched_since != Instant{} ? device.record.watched_since : device.since;
    const Instant last =
        device.record.signals.empty() ? began : std::max(began, device.record.signals.back().at);
    if (at - last < (suspect ? policy.suspect_for : policy.probation_for) || (!suspect && !probation) ||
        !is_idle(state, device))
      continue;
    DeviceSteps steps(state, device);
    if (steps.advance(suspect ? LifecycleEvent::kCleared : LifecycleEvent::kProbationOver,
                      {.reason = "no further signal"},
                      events)) {
      steps.order(DeviceTask::kAccept, TestLevel::kQuick, events);
      ++moved;
    }
  }
}

}  // namespace tranche::engine
