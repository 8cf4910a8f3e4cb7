// SPDX-License-Identifier: Apache-2.0
#include "policy/device_lifecycle.hpp"

#include <optional>

#include "wire/fields.hpp"

namespace tranche::policy {
namespace {

using State = wire::DeviceState;
using Event = LifecycleEvent;

// A state in which nothing that was known about the device holds any more.
DeviceLife afresh(DeviceLife life, State state) {
  life.state = state;
  life.tested = false;
  life.scrubbed = false;
  return life;
}

DeviceLife keep(DeviceLife life, State state) {
  life.state = state;
  return life;
}

// Into service, once wiped and tested.
DeviceLife through_the_door(DeviceLife life) {
  if (!life.tested || !life.scrubbed) return life;
  life.state = life.probation ? State::kProbation : State::kHealthy;
  if (!life.probation) life.resets = 0;
  return life;
}

// What happened to it is only known to be over when time has passed as well.
DeviceLife to_validate(DeviceLife life) {
  life = afresh(life, State::kValidating);
  life.probation = true;
  return life;
}

DeviceLife to_scrub(DeviceLife life, bool probation) {
  life = afresh(life, State::kScrubbing);
  life.probation = probation;
  return life;
}

bool in_service(State state) {
  return state == State::kHealthy || state == State::kSuspect || state == State::kProbation;
}

std::optional<DeviceLife> in_test(const DeviceLife& life, Event event) {
  if (event == Event::kTestFailed || event == Event::kRepairOrdered) return afresh(life, State::kInRepair);
  if (event == Event::kTestWarned) return to_scrub(life, true);
  if (event != Event::kTestPassed) return std::nullopt;
  // What a reset proves is only proved for a time; a new device, and one that was mended, was tested in full.
  return to_scrub(life, life.state == State::kValidating && life.probation);
}

std::optional<DeviceLife> in_scrub(DeviceLife life, Event event) {
  if (event == Event::kScrubFailed || event == Event::kTestFailed) return afresh(life, State::kQuarantined);
  if (event == Event::kScrubVerified) {
    life.scrubbed = true;
  } else if (event == Event::kTestPassed || event == Event::kTestWarned) {
    life.tested = true;
    life.probation |= event == Event::kTestWarned;
  } else {
    return std::nullopt;
  }
  return through_the_door(life);
}

std::optional<DeviceLife> in_use(DeviceLife life, Event event) {
  switch (event) {
    case Event::kTenantLeft:
      // A suspect that changes hands is tested with the scrub as any other, and stays watched if that is due.
      return life.state == State::kSuspect ? afresh(life, State::kSuspect)
                                           : to_scrub(life, life.state == State::kProbation);
    case Event::kSuspected:
      return life.state == State::kProbation ? afresh(life, State::kDraining) : keep(life, State::kSuspect);
    case Event::kCleared:
      if (life.state == State::kSuspect) return to_scrub(life, false);
      break;
    case Event::kProbationOver:
      if (life.state == State::kProbation) return to_scrub(life, false);
      break;
    case Event::kDrainOrdered:
      return afresh(life, State::kDraining);
    case Event::kMaintenanceBegins:
      // A planned window is no fault: one that was healthy is so again after its tests, and no other is.
      life.probation = life.state != State::kHealthy;
      return afresh(life, State::kMaintenance);
    default:
      break;
  }
  return std::nullopt;
}

std::optional<DeviceLife> out_of_use(DeviceLife life, Event event) {
  switch (life.state) {
    case State::kNew:
      if (event == Event::kAcceptanceBegins) return afresh(life, State::kAccepting);
      break;
    case State::kDraining:
      if (event == Event::kDrained) return afresh(life, State::kQuarantined);
      break;
    case State::kQuarantined:
      if (event == Event::kResetOrdered && life.resets < kResetsMax) {
        ++life.resets;
        return afresh(life, State::kResetting);
      }
      if (event == Event::kRepairOrdered) return afresh(life, State::kInRepair);
      break;
    case State::kResetting:
      if (event == Event::kResetDone) return to_validate(life);
      if (event == Event::kResetFailed)
        return afresh(life, life.resets < kResetsMax ? State::kQuarantined : State::kInRepair);
      break;
    case State::kInRepair:
      if (event == Event::kRepaired) {
        life.resets = 0;
        return afresh(life, State::kAccepting);
      }
      if (event == Event::kRetired) return afresh(life, State::kRetired);
      break;
    case State::kMaintenance:
      if (event == Event::kMaintenanceEnds) return afresh(life, State::kValidating);
      if (event == Event::kRepairOrdered) return afresh(life, State::kInRepair);  // Found unfit by hand.
      break;
    case State::kLost:
      if (event == Event::kAgentBack) return to_validate(life);
      if (event == Event::kRepairOrdered) return afresh(life, State::kInRepair);
      break;
    default:
      break;
  }
  return std::nullopt;
}

std::optional<DeviceLife> next(const DeviceLife& life, Event event) {
  if (life.state == State::kRetired) return std::nullopt;
  if (event == Event::kAgentSilent && life.state != State::kLost && life.state != State::kInRepair)
    return afresh(life, State::kLost);
  if (life.state == State::kAccepting || life.state == State::kValidating) return in_test(life, event);
  if (life.state == State::kScrubbing) return in_scrub(life, event);
  return in_service(life.state) ? in_use(life, event) : out_of_use(life, event);
}

}  // namespace

Result<DeviceLife, std::string> advance(DeviceLife life, LifecycleEvent event) {
  if (const auto after = next(life, event)) return *after;
  return refuse("a device that is " + std::string(wire::name_of(life.state)) + " cannot have " +
                std::string(wire::name_of(event)));
}

Placeable placeable(wire::DeviceState state) {
  if (state == State::kHealthy) return Placeable::kYes;
  return state == State::kProbation ? Placeable::kPreemptible : Placeable::kNo;
}

}  // namespace tranche::policy
