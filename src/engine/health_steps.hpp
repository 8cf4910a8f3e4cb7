// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps that several causes lead to.
#include "engine/device_life.hpp"

namespace tranche::engine {

// Of a test: whether any part of it could run, and what is most worth saying of it.
[[nodiscard]] bool ran(const wire::AcceptanceReceipt&);
[[nodiscard]] std::string finding_of(const wire::AcceptanceReceipt&);

// Of a test that was passed: what its device is a tenth slower in than the median of at least three of its
// model; empty: nothing.
[[nodiscard]] std::string slower_than_peers(const State&, const Device&, const wire::AcceptanceReceipt&);

// A device that nobody is on, quarantined: reset, left to the operator, or sent to repair.
void mend(DeviceSteps& steps, WhenIdle next, const Cause& cause, Events& events);

// Takes a device out of service: its jobs are told, and what comes after is done when they are gone. False:
// the breaker is open, and the device is only kept from new work.
struct Withdrawal {
  WhenIdle next = WhenIdle::kReset;
  Cause cause{};
  EndReason jobs = EndReason::kDeviceFault;  // kNone: they may stay until they end.
  Instant fault{};                           // Since when they are not charged.
  bool since_checkpoint = false;
  bool automatic = true;
};
bool withdraw(const State&, const Device&, const Withdrawal&, Instant at, Events&);

}  // namespace tranche::engine
