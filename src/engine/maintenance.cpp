// SPDX-License-Identifier: Apache-2.0
#include "engine/maintenance.hpp"

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

}  // namespace

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
