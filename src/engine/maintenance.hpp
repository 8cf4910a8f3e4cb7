// SPDX-License-Identifier: Apache-2.0
#pragma once
// A planned window takes its devices out of service while it is open, and gives them back through their
// tests.
#include "engine/booking.hpp"
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Of an open window: devices that nobody is on any more, and that nothing else is due on.
void append_maintenance_begins(const State&, const Booking&, const BookedWindow&, Events&);
// The window is over, or was cancelled while it was open.
void append_maintenance_ends(const State&, const BookedWindow&, const std::string& why, Events&);

}  // namespace tranche::engine
