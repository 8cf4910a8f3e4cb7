// SPDX-License-Identifier: Apache-2.0
#include "engine/health.hpp"

#include <algorithm>
#include <set>

#include "engine/decide.hpp"
#include "engine/device_life.hpp"
#include "engine/health_steps.hpp"
#include "engine/refusals.hpp"
#include "wire/codec_impl.hpp"
#include "wire/yaml_document.hpp"

namespace tranche::engine {
namespace {

using policy::LifecycleEvent;

constexpr std::size_t kSignalsKept = 32;
constexpr Duration kWeek = std::chrono::hours(24 * 7);

std::optional<Refusal> capacity_problem(const State& state, const Actor& actor, const Node* node) {
  if (node == nullptr || !can_see(state, actor, node->owner)) return not_found();
  return check_access(state, actor, Action::kManageCapacity, node->owner);
}

Refusal not_now(std::string message, std::string fix) {
  return {
      .reason = Reason::kConflict, .rule = "repair", .message = std::move(message), .fix = std::move(fix)};
}

// Out of the hands of tests and tenants, where a repair finds it.
bool to_repair(DeviceSteps& steps, const Cause& cause, Events& events) {
  return steps.state() == DeviceState::kInRepair ||
         steps.advance(LifecycleEvent::kRepairOrdered, cause, events);
}

// Of a device that is on its way back: what its reset or its repair asks for is not made less.
TestLevel at_least_as_ordered(const Device& device, TestLevel level) {
  return device.record.order == 0 ? level : std::max(level, device.record.level);
}

// Back through the door that every device comes through: tested, wiped, tested.
bool back_to_tests(DeviceSteps& steps, TestLevel level, const Cause& cause, Events& events) {
  if (steps.state() == DeviceState::kQuarantined) to_repair(steps, cause, events);
  if (!steps.advance(LifecycleEvent::kRepaired, cause, events)) return false;
  steps.order(DeviceTask::kAccept, level, events);
  return true;
}

std::uint64_t open_repair_of(const State& state, DeviceId device) {
  for (const auto& [id, repair] : state.repairs)
    if (repair.device == device && !is_closed(repair.state)) return id;
  return 0;
}

}  // namespace

bool is_closed(RepairState state) {
  return state != RepairState::kOpen && state != RepairState::kAccepted;
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const OpenRepair& command) {
  const Device* device = state.device(command.device);
  const Node* node = device == nullptr ? nullptr : state.node(device->node);
  if (auto refusal = capacity_problem(state, actor, node)) return refuse(*refusal);
  if (command.reason.empty())
    return refuse(
        invalid("reason", "a repair is opened for a reason", "for example --reason 'the fan rattles'"));
  if (const std::uint64_t open = open_repair_of(state, device->id); open != 0)
    return refuse(not_now("rep_" + std::to_string(open) + " of this device is open already",
                          "tranche repair show rep_" + std::to_string(open)));
  DeviceSteps steps(state, *device);
  Events events;
  const Cause cause{.reason = command.reason, .actor = actor.party};
  steps.open_repair(command.reason, events);
  const bool taken_out =
      withdraw(state,
               *device,
               {.next = WhenIdle::kRepair, .cause = cause, .jobs = EndReason::kPreempted, .automatic = false},
               envelope.at,
               events);
  if (!taken_out && !to_repair(steps, cause, events))
    return refuse(not_now("its device is " + std::string(wire::name_of(device->state)),
                          device->state == DeviceState::kRetired ? "a retired device stays retired"
                                                                 : "wait a moment: tranche health board"));
  return events;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ChangeRepair& command) {
  const auto found = state.repairs.find(command.id);
  const Device* device = found == state.repairs.end() ? nullptr : state.device(found->second.device);
  const Node* node = device == nullptr ? nullptr : state.node(device->node);
  if (auto refusal = capacity_problem(state, actor, node)) return refuse(*refusal);
  const Repair& repair = found->second;
  if (is_closed(repair.state) || command.to == RepairState::kOpen ||
      (command.to == RepairState::kAccepted && repair.state == RepairState::kAccepted))
    return refuse(not_now("this repair is " + std::string(wire::name_of(repair.state)) + " already",
                          "tranche repair list shows what is open"));
  if (command.to == RepairState::kRetired && command.note.empty())
    return refuse(invalid("reason",
                          "a device is retired for a reason, and for good",
                          "for example --reason 'out of warranty'"));
  Events events{RepairChanged{command.id,
                              repair.state,
                              command.to,
                              command.ticket.empty() ? repair.ticket : command.ticket,
                              command.expected == Instant{} ? repair.expected : command.expected,
                              command.note.empty() ? repair.note : command.note}};
  DeviceSteps steps(state, *device);
  const Cause cause{.reason = command.note.empty() ? repair.reason : command.note, .actor = actor.party};
  if (command.to == RepairState::kAccepted) {
    if (steps.state() == DeviceState::kQuarantined)
      steps.advance(LifecycleEvent::kRepairOrdered, cause, events);
    return events;
  }
  const HealthPolicy& policy = state.health.policy;
  const bool returned = command.to == RepairState::kReturned;
  // It came back by itself, from where it was lost: there is nothing more to do about it.
  if (command.to == RepairState::kDismissed && takes_work(device->state)) return events;
  const bool done =
      command.to == RepairState::kRetired
          ? to_repair(steps, cause, events) && steps.advance(LifecycleEvent::kRetired, cause, events)
          : back_to_tests(steps, returned ? policy.repaired : policy.validation, cause, events);
  if (!done)
    return refuse(
        not_now("its device is " + std::string(wire::name_of(device->state)) + ", and not in repair",
                "wait until it is out of service: tranche health board"));
  return events;
}

void apply(State& state, const Envelope& envelope, const RepairOpened& event) {
  state.repairs.insert_or_assign(
      event.id,
      Repair{.id = event.id, .device = event.device, .opened = envelope.at, .reason = event.reason});
  state.health.next_repair = std::max(state.health.next_repair, event.id + 1);
}

void apply(State& state, const Envelope& envelope, const RepairChanged& event) {
  Repair& repair = state.repairs.at(event.id);
  repair.state = event.after;
  repair.ticket = event.ticket;
  repair.expected = event.expected;
  repair.note = event.note;
  if (is_closed(event.after)) repair.closed = envelope.at;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const TestNode& command) {
  const Node* node = state.node(command.node);
  if (auto refusal = capacity_problem(state, actor, node)) return refuse(*refusal);
  if (node->simulated) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "simulated",
                          .message = node->name + " is simulated: there is nothing to test",
                          .fix = "test a real node"});
  }
  Events events;
  const Cause cause{.reason = "test ordered", .actor = actor.party};
  for (const DeviceId id : node->devices) {
    const Device& device = state.devices.at(id);
    DeviceSteps steps(state, device);
    switch (device.state) {
      case DeviceState::kHealthy:
      case DeviceState::kProbation:
      case DeviceState::kSuspect:
        if (!is_idle(state, device)) continue;
        steps.advance(
            device.state == DeviceState::kSuspect ? LifecycleEvent::kCleared : LifecycleEvent::kTenantLeft,
            cause,
            events);
        steps.order(DeviceTask::kAccept, command.level, events);
        break;
      case DeviceState::kAccepting:
      case DeviceState::kValidating:
      case DeviceState::kScrubbing:
        steps.order(DeviceTask::kAccept, at_least_as_ordered(device, command.level), events);
        break;
      case DeviceState::kQuarantined:
      case DeviceState::kInRepair:
      case DeviceState::kMaintenance:
        steps.order(DeviceTask::kTest, command.level, events);
        break;
      default:
        break;
    }
  }
  return events;
}

Result<HealthPolicy, wire::Problem> parse_health_policy(std::string_view text) {
  const auto document = wire::parse_yaml_document(text);  // JSON is YAML, too.
  if (!document) return refuse(document.error());
  return wire::detail::read_document<HealthPolicy>(*document);
}

namespace {

std::string problem_of(const HealthPolicy& policy) {
  if (policy.breaker_percent > 100) return "breaker_percent is 0 to 100";
  if (policy.breaker_window < std::chrono::minutes(1)) return "breaker_window is a minute at least";
  if (policy.suspect_for < Duration{}) return "suspect_for is not below zero";
  if (policy.probation_for < Duration{}) return "probation_for is not below zero";
  std::set<std::string> families;
  for (const policy::HealthTable& table : policy.tables) {
    const std::string name = "table '" + table.version + "'";
    const auto again = policy::parse_health_table(wire::to_json(table));
    if (!again) return name + ": " + again.error();
    if (table.family != "nvidia" && table.family != "any")
      return name + ": there is no family '" + table.family + "', only nvidia, and any for all others";
    if (!families.insert(table.family).second)
      return name + ": a table of the family " + table.family + " is there already";
  }
  return {};
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetHealthPolicy& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const HealthPolicy& policy = command.policy;
  const std::string problem = problem_of(policy);
  if (!problem.empty()) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "health policy",
                          .message = problem,
                          .fix = "tranche health policy -o yaml shows what is in force; change that"});
  }
  return Events{HealthPolicySet{state.health.policy, policy}};
}

void apply(State& state, const Envelope&, const HealthPolicySet& event) {
  state.health.policy = event.after;
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetBreaker& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  if (state.health.breaker_open == command.open) return Events{};
  return Events{BreakerChanged{command.open, 0, command.open ? "opened by hand" : "closed by hand"}};
}

void apply(State& state, const Envelope& envelope, const BreakerChanged& event) {
  state.health.breaker_open = event.open;
  state.health.breaker_since = envelope.at;
  if (!event.open) state.health.departures.clear();
}

void apply(State& state, const Envelope&, const DeviceOrdered& event) {
  DeviceRecord& record = state.devices.at(event.device).record;
  record.order = event.order;
  record.task = event.task;
  record.level = event.level;
  record.tries = event.tries;
  if (event.lease != LeaseId{}) record.left_by = event.lease;
  state.health.next_order = std::max(state.health.next_order, event.order + 1);
}

void apply(State& state, const Envelope& envelope, const DeviceMarked& event) {
  Device& device = state.devices.at(event.device);
  device.record.when_idle = event.when_idle;
  device.record.dedicated_only = event.dedicated_only;
  if (event.departed) {
    std::erase_if(device.record.remediations, [&](Instant at) { return envelope.at - at > kWeek; });
    device.record.remediations.push_back(envelope.at);
    std::erase_if(state.health.departures, [&](const Departure& one) {
      return envelope.at - one.at > state.health.policy.breaker_window;
    });
    state.health.departures.push_back({envelope.at, device.node});
  }
  state.index.capacity->refresh_device(state, device);
}

void apply(State& state, const Envelope& envelope, const DeviceStateChanged& event) {
  Device& device = state.devices.at(event.id);
  tally(state, event.id, envelope.at);
  if (device.state != event.after) device.since = envelope.at;
  device.state = event.after;
  device.reason = event.reason;
  device.record.tested = event.tested;
  device.record.scrubbed = event.scrubbed;
  device.record.resets = event.resets;
  device.record.probation = event.probation;
  const bool served = event.after == DeviceState::kScrubbing || event.after == DeviceState::kQuarantined ||
                      event.after == DeviceState::kLost;
  // What came up while it was being wiped waits until it is back.
  if (served && event.before != event.after) device.record.when_idle = WhenIdle::kNothing;
  if (event.after == DeviceState::kResetting) device.record.dedicated_only = false;  // The node looks again.
  device.record.kept_for = {};
  // A wipe of the whole device pays for everybody.
  if (event.before == DeviceState::kScrubbing && takes_work(event.after)) device.record.owed.clear();
  const bool watched = event.after == DeviceState::kProbation;
  if (watched && device.record.watched_since == Instant{}) device.record.watched_since = envelope.at;
  if (!watched && !(event.after == DeviceState::kScrubbing && event.probation))
    device.record.watched_since = {};
  state.index.capacity->refresh_device(state, device);
  if (event.after != DeviceState::kScrubbing) device.record.left_by = {};
}

void note_signal(State& state, const HealthSignalled& event) {
  const auto found = state.devices.find(event.device);
  if (found == state.devices.end()) return;
  std::vector<SeenSignal>& signals = found->second.record.signals;
  signals.push_back({event.signal.at,
                     event.signal.source,
                     event.signal.code,
                     event.signal.value,
                     event.signal.text,
                     event.action,
                     event.table_version,
                     event.tenants});
  if (signals.size() > kSignalsKept) signals.erase(signals.begin());
}

void note_receipts(State& state, NodeId node, const wire::Receipts& receipts) {
  for (const wire::DeviceOutcome& outcome : receipts.outcomes) {
    const auto found = state.devices.find(outcome.device);
    if (found == state.devices.end() || found->second.node != node) continue;
    if (found->second.record.order == outcome.order) found->second.record.order = 0;
  }
  for (const wire::AcceptanceReceipt& receipt : receipts.acceptances) {
    const auto found = state.devices.find(receipt.device);
    if (found == state.devices.end() || found->second.node != node) continue;
    if (receipt.lease != LeaseId{}) {  // Between two leases: beside the test that it was accepted with.
      if (receipt.verdict != wire::Verdict::kCritical) found->second.record.quick_record = state.sequence;
      continue;
    }
    found->second.record.last_test = receipt;
    if (receipt.verdict != wire::Verdict::kCritical) found->second.record.test_record = state.sequence;
  }
}

}  // namespace tranche::engine

TRANCHE_WIRE_JSON(tranche::engine::HealthPolicy);
