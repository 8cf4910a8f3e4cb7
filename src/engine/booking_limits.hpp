// SPDX-License-Identifier: Apache-2.0
#pragma once
// What quotas say about bookings: how long, how far ahead, how much at once; at every node of the tree.
#include <optional>
#include <vector>

#include "engine/access.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

[[nodiscard]] std::optional<Refusal> booking_limit_problem(const State&,
                                                           Instant now,
                                                           PartyId owner,
                                                           const BookWindows&);

// Without the windows that lie further ahead than anyone in the tree may book; the first always stays.
[[nodiscard]] std::vector<TimeSpan> within_lead(const State&,
                                                Instant now,
                                                PartyId owner,
                                                std::vector<TimeSpan> windows);

// Leases that hold slices in a window of the booking that is open.
[[nodiscard]] std::vector<LeaseId> leases_in(const State&, const Booking&);

// The booking that a job names by its label, while windows of it are left; nothing: it names none.
[[nodiscard]] const Booking* booking_named(const State&, const Job&);

}  // namespace tranche::engine
