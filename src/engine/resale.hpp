// SPDX-License-Identifier: Apache-2.0
#pragma once
// What was bought is sold on: by whom, how much of it, and as long as it is his.
#include <optional>

#include "engine/access.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Whoever may buy may sell on what he bought; devices are offered by those who manage them.
[[nodiscard]] Action right_to_sell(ContractId bought);
[[nodiscard]] Action right_to_sell(const State&, const Contract&);  // As its seller.
[[nodiscard]] Action right_to_trade(const State&, const MarketOrder&);

struct Resale {
  PartyId seller{};
  ContractId bought{};
  std::uint32_t quantity = 0;
  std::int64_t first_slot = 0;
  std::uint32_t slots = 0;
};
// Why that cannot be offered. What else of the contract is offered or sold counts against it.
[[nodiscard]] std::optional<Refusal> resale_problem(const State&, const Resale&);
// Whether what the ask sells of the piece in those slots is the seller's own: a contract may be cut short,
// interrupted or over, and where its claim lacks that part nobody could use what he buys.
[[nodiscard]] bool is_held(
    const State&, const Piece&, const MarketOrder& ask, std::int64_t first_slot, std::int64_t end_slot);

}  // namespace tranche::engine
