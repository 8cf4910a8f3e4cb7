// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the codes of a HealthSignal mean, by its source. `xid` and `test` bring codes of their own; these are
// ours, and numbers are never reused.
#include <cstdint>

namespace tranche::wire {

// Source "ecc". The value is the count that was read.
constexpr std::int64_t kEccUncorrected = 1;
constexpr std::int64_t kEccCorrectedRate = 2;
constexpr std::int64_t kEccRemapPending = 3;
constexpr std::int64_t kEccRemapFailed = 4;
constexpr std::int64_t kEccOff = 5;

// Source "link". The value is the width, or the number of links, that is left.
constexpr std::int64_t kLinkWidth = 1;
constexpr std::int64_t kLinkDown = 2;

// Source "thermal". The value is what the driver gave as its reasons.
constexpr std::int64_t kThermalSlowdown = 1;
constexpr std::int64_t kPowerBrake = 2;

// Source "telemetry".
constexpr std::int64_t kDeviceLost = 1;
constexpr std::int64_t kDeviceSilent = 2;
constexpr std::int64_t kDeviceBack = 3;

// Source "agent".
constexpr std::int64_t kLeaseStuck = 1;  // A job that cannot be ended.
constexpr std::int64_t kShareStuck = 2;  // A partition, or a sharing daemon, that cannot be taken down.

constexpr std::int64_t kWentAround = 3;      // A job used the device past its account, and was ended.
constexpr std::int64_t kForeignProcess = 4;  // Something uses the device that belongs to no lease.

// Source "test". The value is the level.
constexpr std::int64_t kTestFailed = 1;
constexpr std::int64_t kTestCannotRun = 2;
constexpr std::int64_t kScrubNotVerified = 3;
constexpr std::int64_t kStraggler = 4;

}  // namespace tranche::wire
