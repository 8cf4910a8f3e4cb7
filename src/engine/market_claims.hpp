// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the exchange and the calendar know of each other. An offer that is not sold keeps bookings and work
// that could not leave away from its device; what was bought is a claim that the buyer's jobs use.
//
// Devices that the platform does not run (a peer's) have no calendar here, and none of this touches them.
#include <optional>

#include "engine/event.hpp"
#include "engine/offer.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// What is offered of a device and not sold, as claims of nobody.
[[nodiscard]] const std::vector<CalendarClaim>& listed_on(const State&, DeviceId);
void listing_changed(State&, PieceId);

// The device that a piece is of, also where it was bought before; zero: none that the platform runs.
[[nodiscard]] DeviceId device_under(const State&, const Piece&);

// Whether a bid may be filled from the piece without strangers meeting on a device. Fractions are for
// tenants who agreed to share; everybody else takes whole devices.
[[nodiscard]] bool may_meet(const State&, const Piece&, const MarketOrder& ask, const MarketOrder& bid);

// Where an offer is on its device, or why the calendar, or who shares with whom, does not allow it. A device
// that the platform does not run has no calendar.
[[nodiscard]] Result<Slice, Refusal> place_on_calendar(const State&, Instant now, const Offer&);
[[nodiscard]] std::optional<Refusal> resale_sharing_problem(const State&,
                                                            const Contract&,
                                                            std::uint32_t quantity);

// Claims for the fills among the events, and what is left of those that were sold on.
void append_claims(const State&, Instant at, Events&);
// The claim of a contract that is not delivered any more, and the work in it, ends.
void append_claim_end(const State&, ContractId, Events&);
// The claim of a contract that ends earlier than it was agreed.
void append_claim_cut(const State&, ContractId, Instant end, Events&);
// What of a contract's claim its seller, who had bought it himself, has back from then on: his own claim gets
// it, also where it was sold on once more. After whatever else the events do with that.
void append_claim_back(const State&, const Contract&, Instant from, Events&);
// Offers that nobody bought, under work of their owner that starts there: he has the time himself.
void append_taken_back(const State&, Instant at, const Job&, const std::vector<Slice>&, Events&);
// Whether an offer on the device is the job's own tenant's, has begun, and was not bought.
[[nodiscard]] bool is_own_unsold(const State&, const Job&, DeviceId, const CalendarClaim& offer, Instant at);
// Claims that one decision made: each of those after must see those before.
struct ClaimsMade {
  std::uint64_t count = 0;
  std::map<DeviceId, std::vector<CalendarClaim>> on{};
  std::optional<std::multimap<ContractId, ContractId>> sold_on{};  // What was made of which; looked up once.
};
// The claim of a contract that is delivered again, less what its buyer sold on.
[[nodiscard]] std::optional<Refusal> append_claim_again(
    const State&, Instant at, const Contract&, ClaimsMade&, Events&);

}  // namespace tranche::engine
