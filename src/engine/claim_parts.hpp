// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files of market_claims.hpp share: a contract's claim, and the piece of a device under what was
// sold on.
#include "engine/market_claims.hpp"
#include "engine/market_portion.hpp"

namespace tranche::engine {

// The claim that stands for a contract; null: it has none, or none any more.
[[nodiscard]] const Booking* claim_of(const State&, ContractId);
// What a buyer has of a contract, without its window.
[[nodiscard]] WindowsBooked claim_for(const State&, ClaimId, PartyId buyer, ContractId, const Portion&);
// What a book trades; of one that is not open yet, a fraction.
[[nodiscard]] const Instrument& instrument_of(const State&, std::uint64_t book);
// The piece of the device itself, also where it was bought before; null: its device is not known here.
[[nodiscard]] const Piece* piece_under(const State&, const Piece&);

}  // namespace tranche::engine
