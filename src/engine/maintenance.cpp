// SPDX-License-Identifier: Apache-2.0
#include "engine/maintenance.hpp"

#include <algorithm>

#include "engine/device_life.hpp"

namespace tranche::engine {
namespace {

using policy::LifecycleEvent;

template <class Visit>
void for_each_device(const State& state, const BookedWindow& window, Visit&& visit) {
  for (const BookedPlace& place : window.places)
    for (const Slice& slice : place.slices)
      if (const Device* device = state.device(slice.device)) visit(*device);
}

// Nobody is on it or has it kept, and no reset, test or wipe of it is under way.
bool is_free(const State& state, const Device& device) {
  const DeviceRecord& record = device.record;
  return record.when_idle == WhenIdle::kNothing && record.kept_for == PartyId{} && record.order == 0 &&
         is_idle(state, device);
}

// Of a device that nobody knows: makers' own tests of that thoroughness take minutes.
Duration guess_of(TestLevel level) {
  switch (level) {
    case TestLevel::kQuick:
      return std::chrono::minutes(1);
    case TestLevel::kStandard:
      return std::chrono::minutes(5);
    case TestLevel::kFull:
      break;
  }
  return std::chrono::minutes(20);
}

}  // namespace

Instant work_ends(const Booking& booking, const BookedWindow& window) {
  return std::max(window.to - booking.ask.time, window.from);
}

Duration time_for_tests(const State& state, const std::vector<DeviceId>& devices) {
  constexpr Duration kLeast = std::chrono::minutes(1);  // The node has to be told, and to answer.
  const TestLevel level = state.health.policy.validation;
  Duration sum{};
  for (const DeviceId id : devices) {
    const Device& device = state.devices.at(id);
    if (device.facts.simulated) continue;  // Answers at once.
    const auto& last = device.record.last_test;
    sum += last && last->level >= level ? last->took : guess_of(level);
  }
  // A quarter more: it is not as fast every time.
  return std::chrono::ceil<std::chrono::minutes>(std::max(sum + sum / 4, kLeast));
}

bool is_tested_after(const State& state, const BookedWindow& window) {
  bool all = true;
  for_each_device(state, window, [&](const Device& device) {
    all &= device.state != DeviceState::kMaintenance && device.state != DeviceState::kValidating &&
           device.state != DeviceState::kScrubbing;
  });
  return all;
}

void append_maintenance_begins(const State& state,
                               const Booking& booking,
                               const BookedWindow& window,
                               Events& events) {
  for_each_device(state, window, [&](const Device& device) {
    if (is_free(state, device))
      DeviceSteps(state, device)
          .advance(
              LifecycleEvent::kMaintenanceBegins, {.reason = booking.name, .actor = booking.owner}, events);
  });
}

void append_maintenance_ends(const State& state,
                             const BookedWindow& window,
                             const std::string& why,
                             Events& events) {
  for_each_device(state, window, [&](const Device& device) {
    DeviceSteps steps(state, device);
    if (steps.advance(LifecycleEvent::kMaintenanceEnds, {.reason = why}, events))
      steps.order(DeviceTask::kAccept, state.health.policy.validation, events);
  });
}

}  // namespace tranche::engine
