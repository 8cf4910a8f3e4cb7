// SPDX-License-Identifier: Apache-2.0
#include "engine/node.hpp"

#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/decide.hpp"
#include "engine/device_life.hpp"
#include "engine/health_steps.hpp"
#include "engine/market_fill.hpp"
#include "wire/node_label.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kInvitationMax = std::chrono::hours(24 * 30);

bool is_node_name(const std::string& name) {
  if (name.empty() || name.size() > 63 || name.front() == '-' || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

Refusal bad_invitation() {
  return {.reason = Reason::kForbidden,
          .rule = "invitation",
          .message = "the join token is not one of ours, was used already, or has run out",
          .fix = "make a new one: tranche node add NAME"};
}

std::optional<Refusal> bad_labels(const wire::TextMap& labels, const wire::TextMap& known = {}) {
  std::string problem = wire::label_problem(labels, known);
  if (problem.empty()) return std::nullopt;
  return Refusal{.reason = Reason::kInvalid,
                 .rule = "label",
                 .message = std::move(problem),
                 .fix = "for example: tranche node label gpu-01 rack=r7"};
}

const Device* find_device(const State& state, const Node& node, const std::string& uuid) {
  for (const DeviceId id : node.devices) {
    const Device& device = state.devices.at(id);
    if (device.facts.uuid == uuid) return &device;
  }
  return nullptr;
}

bool is_running(const wire::Hello& hello, const Lease& lease) {
  return std::any_of(hello.running.begin(), hello.running.end(), [&](const wire::RunningLease& running) {
    return running.lease == lease.id && running.epoch == lease.epoch;
  });
}

Events lease_lost(const State& state, const Envelope& envelope, const Lease& lease, std::string why) {
  return lease_over(state,
                    envelope,
                    lease,
                    {.lease = lease.id,
                     .epoch = lease.epoch,
                     .state = LeaseState::kLost,
                     .at = envelope.at,
                     .reason = EndReason::kNodeFault,
                     .message = std::move(why)},
                    0);
}

bool manages(const State& state, const Actor& actor, const Node& node) {
  return may(state, actor, Action::kManageCapacity, node.owner);
}

std::optional<Refusal> change_problem(const State& state, const Actor& actor, const Node* node) {
  if (node == nullptr || !can_see(state, actor, node->owner)) return not_found();
  if (manages(state, actor, *node)) return std::nullopt;
  return Refusal{.reason = Reason::kForbidden,
                 .rule = "role",
                 .where = path_of(state, node->owner),
                 .message = "you may see this node, but not change it",
                 .fix = "ask its capacity owner"};
}

// Nobody knows what became of them: they are tested again before anybody gets them. What was out of service
// for a reason of its own, or on its way there, stays so: its jobs ended with their leases.
void append_lost_devices(const State& state, const Node& node, const std::string& why, Events& events) {
  for (const DeviceId id : node.devices) {
    const Device device = as_decided(state.devices.at(id), events);
    if (device.state == DeviceState::kQuarantined || device.state == DeviceState::kResetting ||
        device.state == DeviceState::kMaintenance)
      continue;
    if (device.state == DeviceState::kDraining)
      append_drained(state, device, events);
    else
      lose(state, device, {.reason = why, .signal = "telemetry 2"}, events);
  }
}

}  // namespace

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const AddNode& command) {
  const PartyId owner = command.owner == PartyId{} ? kPlatform : command.owner;
  if (auto refusal = check_access(state, actor, Action::kManageCapacity, owner)) return refuse(*refusal);
  if (!is_node_name(command.name)) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "name",
                          .message = "a node's name has 1 to 63 of a-z, 0-9, '-' and '.'",
                          .fix = "for example: tranche node add gpu-01"});
  }
  if (auto refusal = bad_labels(command.labels)) return refuse(*refusal);
  const auto known = state.index.nodes_by_name.find(command.name);
  const Node* before = known == state.index.nodes_by_name.end() ? nullptr : state.node(known->second);
  if (before != nullptr && (before->owner != owner || before->state == NodeState::kReady)) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "name",
                          .message = "there is a node '" + command.name + "' already",
                          .fix = "choose another name, or tranche node remove " + command.name});
  }
  const Duration life = std::clamp<Duration>(command.expires_in, std::chrono::minutes(1), kInvitationMax);
  // One that comes back keeps what it was called; one that was removed begins anew.
  const bool known_still = before != nullptr && before->state != NodeState::kRetired;
  wire::TextMap labels = known_still ? before->labels : wire::TextMap{};
  for (const auto& [key, value] : command.labels) labels.set(key, value);
  Events events{NodeAdded{.id = before != nullptr ? before->id : NodeId{state.next_node},
                          .name = command.name,
                          .owner = owner,
                          .site = known_still && command.site.empty() ? before->site : command.site,
                          .labels = labels,
                          .hash = command.invitation,
                          .expires = envelope.at + life}};
  if (before != nullptr && before->state == NodeState::kRetired) {
    events.push_back(NodeStateChanged{before->id, before->state, NodeState::kJoining, "invited again"});
    append_lost_devices(
        state, *before, "its node was removed", events);  // However long ago: they are tested.
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const NodeAdded& event) {
  Node& node = state.nodes[event.id];
  const bool fresh = node.id == NodeId{};
  node.id = event.id;
  node.name = event.name;
  node.owner = event.owner;
  node.site = event.site;
  node.labels = event.labels;
  node.invitation = event.hash;
  node.invitation_expires = event.expires;
  node.version = state.sequence;
  if (fresh) node.since = envelope.at;
  state.index.nodes_by_name[event.name] = event.id;
  state.next_node = std::max(state.next_node, event.id.value + 1);
}

Decision decide(const State& state, const Envelope& envelope, const JoinNode& command) {
  const auto found = state.index.nodes_by_name.find(command.name);
  const Node* node = found == state.index.nodes_by_name.end() ? nullptr : state.node(found->second);
  const bool good = node != nullptr && command.hash != TokenHash{} && node->invitation == command.hash &&
                    node->invitation_expires > envelope.at;
  if (!good) return refuse(bad_invitation());
  return Events{NodeInvitationUsed{node->id}};
}

void apply(State& state, const Envelope&, const NodeInvitationUsed& event) {
  Node& node = state.nodes.at(event.id);
  node.invitation = {};
  node.version = state.sequence;
}

Decision decide(const State& state, const Envelope& envelope, const ReportNode& command) {
  const Node* node = state.node(command.id);
  if (node == nullptr || node->state == NodeState::kRetired) return refuse(not_found());
  const wire::Hello& hello = command.hello;
  if (hello.simulated != node->name.starts_with("sim-")) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "simulated",
                          .message = "simulated nodes, and only they, are named sim-*",
                          .fix = "tranche node add sim-NAME"});
  }
  NodeReported reported{.id = node->id,
                        .boot_id = hello.boot_id,
                        .software = hello.software,
                        .cpus = hello.cpus,
                        .memory = hello.memory,
                        .labels = hello.labels,
                        .simulated = hello.simulated,
                        .features = hello.features};
  std::uint64_t next_device = state.next_device;
  Events events;
  for (const DeviceFacts& facts : hello.devices) {
    const Device* known = find_device(state, *node, facts.uuid);
    reported.devices.push_back({known != nullptr ? known->id : DeviceId{next_device++}, facts});
  }
  events.push_back(reported);
  if (node->state != NodeState::kReady)
    events.push_back(NodeStateChanged{node->id, node->state, NodeState::kReady, "its agent is connected"});
  append_resumptions(state, node->id, envelope.at, events);
  append_hello_steps(state, *node, hello.simulated, reported.devices, events);
  // What the agent does not know of, and could know of, is gone. What it was never told of is told again.
  for (const LeaseId id : state.index.capacity->leases_on(node->id)) {
    const Lease& lease = state.leases.at(id);
    const bool rebooted = node->boot_id != hello.boot_id;
    if (is_running(hello, lease) || (lease.state == LeaseState::kGranted && !rebooted)) continue;
    if (lease.live()) {
      const char* why = rebooted ? "the node was restarted" : "the node lost track of it";
      append(events, lease_lost(state, envelope, lease, why));
    }
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const NodeReported& event) {
  Node& node = state.nodes.at(event.id);
  const bool rebooted = node.boot_id != event.boot_id;
  node.boot_id = event.boot_id;
  node.software = event.software;
  node.cpus = event.cpus;
  node.memory = event.memory;
  for (const auto& [key, value] : event.labels) node.labels.set(key, value);
  node.simulated = event.simulated;
  node.features = event.features;
  node.version = state.sequence;
  for (const ReportedDevice& reported : event.devices) {
    Device& device = state.devices[reported.id];
    if (device.id == DeviceId{}) {
      device = {.id = reported.id,
                .node = event.id,
                .state = DeviceState::kNew,
                .since = envelope.at,
                .reason = "found by its node"};
      device.record.tallied = envelope.at;
      node.devices.push_back(reported.id);
      state.next_device = std::max(state.next_device, reported.id.value + 1);
    }
    if (device.facts.vram != reported.facts.vram) tally(state, reported.id, envelope.at);
    device.facts = reported.facts;
  }
  Capacity& capacity = *state.index.capacity;
  if (rebooted) release_after_reboot(state, node.id);
  capacity.add_node(state, node);
}

Decision decide(const State& state, const Envelope& envelope, const LoseNode& command) {
  const Node* node = state.node(command.id);
  if (node == nullptr || node->state != NodeState::kReady) return Events{};
  Events events{NodeStateChanged{node->id, node->state, NodeState::kLost, command.reason}};
  append_interruptions(state, node->id, envelope.at, events);
  for (const LeaseId id : state.index.capacity->leases_on(node->id)) {
    const Lease& lease = state.leases.at(id);
    if (!lease.live()) continue;
    append(events, lease_lost(state, envelope, lease, "node " + node->name + " was lost: " + command.reason));
  }
  append_lost_devices(state, *node, "its node was lost", events);
  return events;
}

void apply(State& state, const Envelope& envelope, const NodeStateChanged& event) {
  Node& node = state.nodes.at(event.id);
  for (const DeviceId id : node.devices) tally(state, id, envelope.at);
  node.state = event.after;
  node.since = envelope.at;
  node.version = state.sequence;
  state.index.capacity->refresh_node(state, node);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ChangeNode& command) {
  const Node* node = state.node(command.id);
  if (auto refusal = change_problem(state, actor, node)) return refuse(*refusal);
  if (auto refusal = bad_labels(command.labels, node->labels)) return refuse(*refusal);
  Events events{NodeChanged{.id = node->id,
                            .cordoned_before = node->cordoned,
                            .cordoned = command.cordoned,
                            .draining_before = node->draining,
                            .draining = command.draining,
                            .labels_before = node->labels,
                            .labels = command.labels}};
  if (!command.draining) return events;
  for (const LeaseId id : state.index.capacity->leases_on(node->id)) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.push_back(revocation(state, lease, EndReason::kPreempted, "its node is being drained", JobId{}));
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const NodeChanged& event) {
  Node& node = state.nodes.at(event.id);
  for (const DeviceId id : node.devices) tally(state, id, envelope.at);
  node.cordoned = event.cordoned;
  node.draining = event.draining;
  node.labels = event.labels;
  node.version = state.sequence;
  state.index.capacity->refresh_node(state, node);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveNode& command) {
  const Node* node = state.node(command.id);
  if (auto refusal = change_problem(state, actor, node)) return refuse(*refusal);
  for (const LeaseId id : state.index.capacity->leases_on(node->id)) {
    if (!state.leases.at(id).live()) continue;
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "in_use",
                          .message = node->name + " still runs work",
                          .fix = "tranche node drain " + node->name});
  }
  Events events{NodeStateChanged{node->id, node->state, NodeState::kRetired, "removed"}};
  append_lost_devices(state, *node, "its node was removed", events);
  return events;
}

}  // namespace tranche::engine
