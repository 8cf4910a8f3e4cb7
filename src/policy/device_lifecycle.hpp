// SPDX-License-Identifier: Apache-2.0
#pragma once
// The life of a device from its arrival to its end. There is one door to HEALTHY, and it leads through
// SCRUBBING: memory wiped and read back, and a test passed, both since the last time anybody or anything had
// the device.
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "wire/states.hpp"

namespace tranche::policy {

enum class LifecycleEvent : std::uint8_t {
  kAcceptanceBegins,
  kTestPassed,
  kTestFailed,
  kScrubVerified,
  kScrubFailed,
  kTenantLeft,  // The whole device changes hands.
  kSuspected,   // A warning; what runs may stay.
  kCleared,     // A day without another; the device is idle.
  kDrainOrdered,
  kDrained,  // No process of a tenant is left.
  kResetOrdered,
  kResetDone,
  kResetFailed,
  kProbationOver,  // Three days without a signal; the device is idle.
  kRepairOrdered,
  kRepaired,
  kRetired,
  kMaintenanceBegins,
  kMaintenanceEnds,
  kAgentSilent,
  kAgentBack,
  kTestWarned,  // Nothing it did was wrong, but something was below what it should reach.
};
BOOST_DESCRIBE_ENUM(LifecycleEvent,
                    kAcceptanceBegins,
                    kTestPassed,
                    kTestFailed,
                    kScrubVerified,
                    kScrubFailed,
                    kTenantLeft,
                    kSuspected,
                    kCleared,
                    kDrainOrdered,
                    kDrained,
                    kResetOrdered,
                    kResetDone,
                    kResetFailed,
                    kProbationOver,
                    kRepairOrdered,
                    kRepaired,
                    kRetired,
                    kMaintenanceBegins,
                    kMaintenanceEnds,
                    kAgentSilent,
                    kAgentBack,
                    kTestWarned)

constexpr std::uint8_t kResetsMax = 2;

struct DeviceLife {
  wire::DeviceState state = wire::DeviceState::kNew;
  bool tested = false;  // Since it was last out of our hands.
  bool scrubbed = false;
  std::uint8_t resets = 0;  // Since it was last healthy.
  bool probation = false;   // After the next scrub it is watched, and not yet healthy.
  auto operator<=>(const DeviceLife&) const = default;
};

// The device after the event; a reason when the event cannot happen in its state.
Result<DeviceLife, std::string> advance(DeviceLife life, LifecycleEvent event);

// Whether jobs may be placed on it, and whose.
enum class Placeable : std::uint8_t { kNo, kPreemptible, kYes };
Placeable placeable(wire::DeviceState state);

}  // namespace tranche::policy
