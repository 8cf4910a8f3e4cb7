// SPDX-License-Identifier: Apache-2.0
#pragma once
// From one tenant of a whole device to the next. When the last lease on it ends, the device goes through
// SCRUBBING and nobody gets it before its memory was proven clean. A lease of a part of a device is no matter
// of the device's state: its slice stays taken until it is wiped.
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Whether the lease has its devices for itself.
[[nodiscard]] bool has_whole_devices(const State&, const Lease&);

// What its end means for them. Nothing is wiped while the same tenant waits for what was freed.
void append_handover(const State&, const Envelope&, const Lease&, LeaseState how, Events&);

// Devices that were kept for a tenant whose job went elsewhere, or had to wait: wiped now, for everybody.
void append_unclaimed(const State&, Events&);

// Parts of devices that were given back unwiped while their tenant had them alone: wiped as soon as somebody
// else waits who would share the device.
void append_settlements(const State&, Events&);

// The receipt of a wipe brings the device back, or takes it out.
void append_wipe_steps(const State&, const Node&, const wire::Receipts&, Events&);

}  // namespace tranche::engine
