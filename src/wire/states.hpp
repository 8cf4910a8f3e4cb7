// SPDX-License-Identifier: Apache-2.0
#pragma once
// States that people see of devices, nodes and leases, in the same words everywhere.
#include <boost/describe/enum.hpp>
#include <cstdint>

namespace tranche::wire {

// There is no way to kHealthy around a test or a scrub.
enum class DeviceState : std::uint8_t {
  kNew,
  kAccepting,  // The full test before first use is running.
  kHealthy,
  kScrubbing,  // Between two tenants of the whole device.
  kSuspect,
  kDraining,
  kQuarantined,
  kResetting,
  kValidating,
  kProbation,  // Back in use, watched closely.
  kInRepair,
  kMaintenance,
  kRetired,
  kLost,
};
BOOST_DESCRIBE_ENUM(DeviceState,
                    kNew,
                    kAccepting,
                    kHealthy,
                    kScrubbing,
                    kSuspect,
                    kDraining,
                    kQuarantined,
                    kResetting,
                    kValidating,
                    kProbation,
                    kInRepair,
                    kMaintenance,
                    kRetired,
                    kLost)

enum class NodeState : std::uint8_t { kJoining, kReady, kCordoned, kDraining, kMaintenance, kLost, kRetired };
BOOST_DESCRIBE_ENUM(NodeState, kJoining, kReady, kCordoned, kDraining, kMaintenance, kLost, kRetired)

// How a device is divided.
enum class DeviceMode : std::uint8_t { kWhole, kPartitioned, kShared };
BOOST_DESCRIBE_ENUM(DeviceMode, kWhole, kPartitioned, kShared)

enum class LeaseState : std::uint8_t {
  kAccepted,
  kPreparing,  // Files, volumes, setup.
  kRunning,
  kPaused,
  kStopping,
  kEnded,
  kRefused,  // The agent cannot or may not act on it.
  kLost,     // Nothing of it was found after a restart.
  kGranted,  // Decided; the agent has not been heard yet.
};
BOOST_DESCRIBE_ENUM(
    LeaseState, kAccepted, kPreparing, kRunning, kPaused, kStopping, kEnded, kRefused, kLost, kGranted)
constexpr bool is_over(LeaseState state) {
  return state == LeaseState::kEnded || state == LeaseState::kRefused || state == LeaseState::kLost;
}

// Why a lease ended. Tells the user's fault from the platform's, which decides who pays.
enum class EndReason : std::uint8_t {
  kNone,
  kExited,   // By itself, with its own code.
  kStopped,  // Somebody asked.
  kPreempted,
  kWindowClosed,
  kTimeLimit,
  kVramLimit,
  kMemoryLimit,
  kSpendLimit,
  kIdleLimit,
  kSetupFailed,
  kImageFailed,
  kWentAround,  // Used the device past its account.
  kLeaseExpired,
  kDeviceFault,
  kNodeFault,
  kPlatformFault,
  kDiskLimit,
  kDependencyFailed,  // A job that it waited for.
  kUnitsFailed,       // Some of its frames, however often they were tried.
  kResized,           // Goes on with more or fewer workers.
  kUnitQuota,         // Its party may do no more of its units in this period.
  kPaused,            // Somebody asked; it goes on when somebody asks for that.
};
BOOST_DESCRIBE_ENUM(EndReason,
                    kNone,
                    kExited,
                    kStopped,
                    kPreempted,
                    kWindowClosed,
                    kTimeLimit,
                    kVramLimit,
                    kMemoryLimit,
                    kSpendLimit,
                    kIdleLimit,
                    kSetupFailed,
                    kImageFailed,
                    kWentAround,
                    kLeaseExpired,
                    kDeviceFault,
                    kNodeFault,
                    kPlatformFault,
                    kDiskLimit,
                    kDependencyFailed,
                    kUnitsFailed,
                    kResized,
                    kUnitQuota,
                    kPaused)
constexpr bool is_platform_fault(EndReason reason) {
  return reason == EndReason::kLeaseExpired || reason == EndReason::kDeviceFault ||
         reason == EndReason::kNodeFault || reason == EndReason::kPlatformFault;
}

// "Cannot run" is kUnknown, and not kCritical.
enum class Verdict : std::uint8_t { kPass, kInfo, kWarning, kCritical, kUnknown };
BOOST_DESCRIBE_ENUM(Verdict, kPass, kInfo, kWarning, kCritical, kUnknown)

}  // namespace tranche::wire
