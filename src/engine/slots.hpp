// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the calendar asks of a pass: open and close windows on time, make room before they open, hand over
// when they close, and start the owners' jobs inside them.
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Nothing when no window needs anything now. Tells the calendar when to look again.
[[nodiscard]] Events keep_windows(const State&, const Envelope&);

// Leases for waiting jobs in windows that are open.
[[nodiscard]] Events start_in_windows(const State&, const Envelope&, int decisions_max);

// A job that names a booking waits for its windows, and is not put anywhere else.
[[nodiscard]] bool waits_for_window(const State&, const Job&);

}  // namespace tranche::engine
