// SPDX-License-Identifier: Apache-2.0
#pragma once
// One device through its life: every step is an event that names its signal, the table's version and who
// wanted it.
#include <optional>
#include <string>

#include "engine/event.hpp"
#include "engine/state.hpp"
#include "policy/device_lifecycle.hpp"
#include "wire/api_node.hpp"

namespace tranche::engine {

struct Cause {  // Of a step.
  std::string reason{};
  std::string signal{};  // "xid 79"; empty: nobody's signal.
  std::string table_version{};
  PartyId actor{};
};

// A device while one decision is made about it: the events so far are as good as folded in.
class DeviceSteps {
 public:
  DeviceSteps(const State& state, const Device& device);
  // A device that is in the events already, and not in the state.
  DeviceSteps(const State& state, DeviceId fresh, NodeId node);

  // False when the lifecycle does not allow it; then nothing is appended.
  bool advance(policy::LifecycleEvent event, const Cause& cause, Events& events);
  // Asks the node for something; the answer comes as receipts.
  void order(DeviceTask task, TestLevel level, Events& events, std::uint8_t tries = 0);
  // What a tenant of the whole device left behind.
  void order_wipe(LeaseId lease, Events& events);
  void open_repair(const std::string& reason, Events& events);

  [[nodiscard]] DeviceState state() const { return life_.state; }
  [[nodiscard]] const policy::DeviceLife& life() const { return life_; }

 private:
  const State& state_;
  DeviceId id_;
  policy::DeviceLife life_;
};

// Live leases with a slice on the device; `without` counts as ended.
[[nodiscard]] std::vector<const Lease*> leases_on(const State&, const Device&, LeaseId without = {});
// Nobody runs on it, and nothing that somebody left waits to be wiped.
[[nodiscard]] bool is_idle(const State&, const Device&, LeaseId without = {});

// The state in the words of whoever uses the device, with its reason; of a test that is under way, how far
// its node says it is.
[[nodiscard]] std::string health_words(const State&, const Device&, const std::string& progress = {});

// A node as its devices make it, and how many of them are in which state.
[[nodiscard]] wire::NodeCondition condition_of(const State&, const Node&);
[[nodiscard]] std::string devices_words(const State&, const Node&);

// What is next for a device that nobody is on any more: after a drain, or because something waited for it.
void append_when_idle(const State&, const Device&, LeaseId without, Events&);
// A lease ended: its devices may be free now.
void append_left(const State&, const Lease&, Events&);
// Time alone moves some devices on.
void append_health_due(const State&, Instant at, Events&);
// The receipts of a node move its devices on.
void append_receipt_steps(const State&, const Node&, const wire::Receipts&, Instant at, Events&);
// What a node's hello means for the devices it brought, and for those it did not.
void append_hello_steps(
    const State&, const Node&, bool simulated, const std::vector<ReportedDevice>&, Events&);
// Whom a signal is about: its device, or, where it names none that is known, all of the node that it may
// mean.
[[nodiscard]] std::vector<DeviceId> concerned_by(const State&, const Node&, const wire::HealthSignal&);
// What a signal leads to.
void append_signal_steps(
    const State&, const Envelope&, const Node&, const Device&, const wire::HealthSignal&, Events&);

// Folding in.
void note_signal(State&, const HealthSignalled&);
void note_receipts(State&, NodeId node, const wire::Receipts&);

// The table for a device: the operator's for its family, else the built-in one.
[[nodiscard]] const policy::HealthTable& table_for(const State&, const Device&);

}  // namespace tranche::engine
