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

// Nobody is on a draining device any more: what it was drained for is done.
void append_drained(const State&, const Device&, Events&);

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

// A device that nobody can reach any more. That it was on its way to repair is not forgotten with it.
bool lose(const State&, const Device&, const Cause&, Events&);
// It answers again: it is tested as soon as whoever saves his work there is gone, or goes on to its repair.
void find_again(const State&, const Device&, TestLevel level, const Cause&, Events&);

// The device as the events so far leave it.
[[nodiscard]] Device as_decided(const Device&, const Events&);

}  // namespace tranche::engine
