// SPDX-License-Identifier: Apache-2.0
// What nodes say of their devices, when they come and when they have done what was asked: found, tested,
// wiped, reset.
#include <algorithm>

#include "engine/decide.hpp"
#include "engine/handover.hpp"
#include "engine/health_steps.hpp"

namespace tranche::engine {
namespace {

using policy::LifecycleEvent;
using wire::Verdict;

constexpr std::uint8_t kTriesMax =
    2;  // "Could not run" is not "failed", but it is not a pass for ever either.

template <class Receipt>
const Receipt* receipt_for(const std::vector<Receipt>& receipts, DeviceId device) {
  for (const Receipt& one : receipts) {
    if constexpr (requires { one.lease; }) {
      if (one.lease != LeaseId{}) continue;  // Of a lease, not of the device as a whole.
    }
    if (one.device == device) return &one;
  }
  return nullptr;
}

class Answer {
 public:
  Answer(const State& state,
         const Device& device,
         const wire::Receipts& receipts,
         const wire::DeviceOutcome& outcome)
      : state_(state),
        device_(device),
        outcome_(outcome),
        test_(receipt_for(receipts.acceptances, device.id)),
        scrub_(receipt_for(receipts.scrubs, device.id)),
        steps_(state, device) {}

  void take(Events& events) {
    if (outcome_.task == DeviceTask::kReset) return take_reset(events);
    if (outcome_.task == DeviceTask::kWipe) return;    // A hand-over: see append_wipe_steps.
    if (outcome_.task == DeviceTask::kSettle) return;  // The receipts of the leases say it all.
    if (outcome_.task == DeviceTask::kTest) return;    // Kept as evidence; only an acceptance moves it on.
    const bool waits = is_tested() || steps_.state() == DeviceState::kScrubbing;
    if (!waits) return;
    if (test_ == nullptr || !ran(*test_)) return take_silence(events);
    const bool passed = test_->verdict != Verdict::kCritical;
    const bool warned = test_->verdict == Verdict::kWarning && state_.health.policy.probation_on_warning;
    const LifecycleEvent found = warned ? LifecycleEvent::kTestWarned : LifecycleEvent::kTestPassed;
    const Cause cause{.reason = finding_of(*test_),
                      .signal = passed ? "" : "test 1",
                      .table_version = test_->table_version};
    if (!passed) return give_up(LifecycleEvent::kTestFailed, cause, events);
    if (is_tested()) steps_.advance(found, cause, events);
    if (scrub_ == nullptr || !wire::is_clean(*scrub_)) {
      return give_up(LifecycleEvent::kScrubFailed,
                     {.reason = scrub_ == nullptr ? "its memory was not wiped"
                                                  : "its memory could not be wiped: " + scrub_->method,
                      .signal = "test 3"},
                     events);
    }
    steps_.advance(LifecycleEvent::kScrubVerified, cause, events);
    steps_.advance(found, cause, events);
    const std::string slow = warned ? "" : slower_than_peers(state_, device_, *test_);
    if (!slow.empty())
      steps_.advance(LifecycleEvent::kSuspected, {.reason = slow, .signal = "test 4"}, events);
  }

 private:
  [[nodiscard]] bool is_tested() const {
    return steps_.state() == DeviceState::kAccepting || steps_.state() == DeviceState::kValidating;
  }

  void give_up(LifecycleEvent event, const Cause& cause, Events& events) {
    if (steps_.advance(event, cause, events)) steps_.open_repair(cause.reason, events);
  }

  void take_silence(Events& events) {
    const std::string why = test_ != nullptr ? finding_of(*test_) : outcome_.message;
    if (device_.record.tries + 1 < kTriesMax) {
      steps_.order(
          outcome_.task, device_.record.level, events, static_cast<std::uint8_t>(device_.record.tries + 1));
      return;
    }
    give_up(
        LifecycleEvent::kTestFailed, {.reason = "it cannot be tested: " + why, .signal = "test 2"}, events);
  }

  void take_reset(Events& events) {
    if (steps_.state() != DeviceState::kResetting) return;
    if (outcome_.done) {
      steps_.advance(LifecycleEvent::kResetDone, {.reason = "reset"}, events);
      steps_.order(DeviceTask::kAccept, state_.health.policy.validation, events);
      return;
    }
    const std::string reason = "it could not be reset: " + outcome_.message;
    steps_.advance(LifecycleEvent::kResetFailed, {.reason = reason}, events);
    if (steps_.state() == DeviceState::kQuarantined) {
      mend(steps_, WhenIdle::kReset, {.reason = reason}, events);
    } else {
      steps_.open_repair(reason, events);
    }
  }

  const State& state_;
  const Device& device_;
  const wire::DeviceOutcome& outcome_;
  const wire::AcceptanceReceipt* test_;
  const wire::ScrubReceipt* scrub_;
  DeviceSteps steps_;
};

// Nothing of a simulated device can be tested, and everything shows that.
void accept_simulated(DeviceSteps& steps, Events& events) {
  const Cause cause{.reason = "SIMULATED: nothing was tested or wiped"};
  for (const LifecycleEvent event : {LifecycleEvent::kAcceptanceBegins,
                                     LifecycleEvent::kTestPassed,
                                     LifecycleEvent::kScrubVerified,
                                     LifecycleEvent::kTestPassed})
    steps.advance(event, cause, events);
}

// Of a part of a device: whoever is on it beside may be hit next, so the whole device goes.
void append_failed_tests(
    const State& state, const Node& node, const wire::Receipts& receipts, Instant at, Events& events) {
  for (const wire::AcceptanceReceipt& test : receipts.acceptances) {
    const Device* device = state.device(test.device);
    if (test.lease == LeaseId{} || test.verdict != Verdict::kCritical || device == nullptr ||
        device->node != node.id || device->state == DeviceState::kScrubbing)
      continue;
    withdraw(state,
             *device,
             {.next = WhenIdle::kQuarantine,
              .cause = {.reason = "it failed the test between two leases: " + finding_of(test),
                        .signal = "test 1"},
              .jobs = EndReason::kDeviceFault,
              .fault = at},
             at,
             events);
  }
}

// A card that was retired is not brought back by another machine of its owner. Only where the maker numbers
// his cards: others have an id of their place, which a sound card in another machine may have as well.
const Device* retired_twin(const State& state, const Node& node, const wire::DeviceFacts& facts) {
  if (facts.uuid.empty() || facts.vendor != wire::GpuVendor::kNvidia) return nullptr;
  for (const auto& [id, device] : state.devices)
    if (device.state == DeviceState::kRetired && device.facts.uuid == facts.uuid &&
        state.nodes.at(device.node).owner == node.owner)
      return &device;
  return nullptr;
}

void retire_again(const State& state, DeviceSteps& steps, const Device& twin, Events& events) {
  const Cause cause{.reason = "it was retired as " + text(twin.id) + " of " + state.nodes.at(twin.node).name +
                              ": " + twin.reason};
  for (const LifecycleEvent event :
       {LifecycleEvent::kAcceptanceBegins, LifecycleEvent::kTestFailed, LifecycleEvent::kRetired})
    steps.advance(event, cause, events);
}

}  // namespace

bool ran(const wire::AcceptanceReceipt& receipt) {
  return std::any_of(receipt.tests.begin(), receipt.tests.end(), [](const wire::TestOutcome& test) {
    return test.verdict != Verdict::kUnknown;
  });
}

std::string finding_of(const wire::AcceptanceReceipt& receipt) {
  for (const Verdict wanted : {Verdict::kCritical, Verdict::kWarning, Verdict::kUnknown}) {
    for (const wire::TestOutcome& test : receipt.tests)
      if (test.verdict == wanted) return test.name + (test.detail.empty() ? "" : ": " + test.detail);
  }
  return "passed";
}

void append_receipt_steps(
    const State& state, const Node& node, const wire::Receipts& receipts, Instant at, Events& events) {
  for (const wire::DeviceOutcome& outcome : receipts.outcomes) {
    const Device* device = state.device(outcome.device);
    if (device == nullptr || device->node != node.id || device->record.order != outcome.order) continue;
    Answer(state, *device, receipts, outcome).take(events);
  }
  append_wipe_steps(state, node, receipts, events);
  append_failed_tests(state, node, receipts, at, events);
  for (const wire::ScrubReceipt& scrub : receipts.scrubs) {
    const Device* device = state.device(scrub.device);
    const Lease* lease = state.lease(scrub.lease);
    // A slice that cannot be wiped stays taken; one that was given back already takes its device with it.
    const bool too_late = lease != nullptr && lease->left && !scrub.deferred && !wire::is_clean(scrub);
    if (scrub.lease == LeaseId{} || (scrub.nonzero_bytes == 0 && !too_late) || device == nullptr ||
        device->node != node.id || device->state == DeviceState::kScrubbing)
      continue;
    const std::string reason = scrub.nonzero_bytes != 0
                                   ? std::to_string(scrub.nonzero_bytes) + " bytes were left after a wipe"
                                   : "its memory could not be wiped: " + scrub.method;
    withdraw(state,
             *device,
             {.next = WhenIdle::kQuarantine,
              .cause = {.reason = reason, .signal = "test 3"},
              .jobs = EndReason::kNone},
             at,
             events);
  }
}

void append_hello_steps(const State& state,
                        const Node& node,
                        bool simulated,
                        const std::vector<ReportedDevice>& reported,
                        Events& events) {
  const HealthPolicy& policy = state.health.policy;
  for (const ReportedDevice& one : reported) {
    const Device* known = state.device(one.id);
    if (known != nullptr && known->state != DeviceState::kNew && known->state != DeviceState::kLost) continue;
    DeviceSteps steps = known == nullptr ? DeviceSteps(state, one.id, node.id) : DeviceSteps(state, *known);
    if (const Device* twin = known == nullptr ? retired_twin(state, node, one.facts) : nullptr) {
      retire_again(state, steps, *twin, events);
      continue;
    }
    if (steps.state() == DeviceState::kNew && simulated) {
      accept_simulated(steps, events);
    } else if (steps.state() == DeviceState::kNew) {
      steps.advance(LifecycleEvent::kAcceptanceBegins, {.reason = "found by its node"}, events);
      steps.order(DeviceTask::kAccept, policy.acceptance, events);
    } else if (const Cause found{.reason = "its node found it again", .signal = "telemetry 3"};
               !simulated || known->record.when_idle == WhenIdle::kRepair ||
               !leases_on(state, *known).empty()) {
      find_again(state, *known, policy.rejoined, found, events);
    } else {
      steps.advance(LifecycleEvent::kAgentBack, found, events);
      for (const LifecycleEvent event :
           {LifecycleEvent::kTestPassed, LifecycleEvent::kScrubVerified, LifecycleEvent::kTestPassed})
        steps.advance(event, {.reason = "SIMULATED: nothing was tested or wiped"}, events);
    }
  }
  for (const DeviceId id : node.devices) {
    const bool there = std::any_of(
        reported.begin(), reported.end(), [&](const ReportedDevice& one) { return one.id == id; });
    const Device& device = state.devices.at(id);
    if (there || device.state == DeviceState::kLost) continue;
    lose(state, device, {.reason = "its node no longer finds it", .signal = "telemetry 1"}, events);
  }
}

}  // namespace tranche::engine
