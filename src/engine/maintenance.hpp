// SPDX-License-Identifier: Apache-2.0
#pragma once
// A planned window takes its devices out of service while it is open, and gives them back through their
// tests.
#include "engine/booking.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// The tests that follow the work are part of the claim, so that whoever is promised the devices right behind
// it gets them on time. `ask.time` of such a claim is what they are given, at the end of each window.
[[nodiscard]] Instant work_ends(const Booking&, const BookedWindow&);
// How long the devices of a node took when they were last tested as thoroughly, one after the other.
[[nodiscard]] Duration time_for_tests(const State&, const std::vector<DeviceId>& devices);
// The work is over, and every device has passed its tests or is out of service for a reason of its own.
[[nodiscard]] bool is_tested_after(const State&, const BookedWindow&);

// Of an open window: devices that nobody is on any more, and that nothing else is due on.
void append_maintenance_begins(const State&, const Booking&, const BookedWindow&, Events&);
// The window is over, or was cancelled while it was open.
void append_maintenance_ends(const State&, const BookedWindow&, const std::string& why, Events&);

}  // namespace tranche::engine
