// SPDX-License-Identifier: Apache-2.0
#include "engine/resale.hpp"

#include <algorithm>
#include <vector>

#include "base/text.hpp"
#include "engine/claim_parts.hpp"
#include "engine/contract_terms.hpp"
#include "engine/market_portion.hpp"
#include "engine/refusals.hpp"

namespace tranche::engine {
namespace {

// The most of it that is offered or sold on at once in any slot of the window.
std::uint32_t most_offered(const State& state, const Resale& resale) {
  std::vector<std::uint32_t> by_slot(resale.slots, 0);
  for (const std::uint64_t id : state.market.pieces.ids()) {
    const Piece& piece = *state.market.pieces.find(id);
    if (piece.bought != resale.bought) continue;
    const std::int64_t first = std::max(piece.first_slot, resale.first_slot);
    const std::int64_t end = std::min(piece.first_slot + piece.slots, resale.first_slot + resale.slots);
    for (std::int64_t slot = first; slot < end; ++slot)
      by_slot[static_cast<std::size_t>(slot - resale.first_slot)] +=
          piece.promised[static_cast<std::size_t>(slot - piece.first_slot)];
  }
  return by_slot.empty() ? 0 : *std::max_element(by_slot.begin(), by_slot.end());
}

bool has(const Booking& claim, const TimeSpan& span, std::uint32_t milli) {
  return std::any_of(claim.windows.begin(), claim.windows.end(), [&](const BookedWindow& window) {
    return window.state != WindowState::kClosed && window.from <= span.from && window.to >= span.to &&
           window.places.front().slices.front().milli >= milli;
  });
}

// Whether the claim of a contract has what an ask sells of it. Nothing that is over counts.
bool is_claimed(const State& state,
                const Contract& contract,
                const MarketOrder& ask,
                std::int64_t first,
                std::int64_t end) {
  const Booking* claim = claim_of(state, contract.id);
  const bool parted = !instrument_of(state, contract.book).shape.empty();  // It is sold whole.
  for (std::int64_t slot = std::max(first, slot_of(state.now)); slot < end; ++slot) {
    const std::uint32_t open = ask.open_at(slot);
    if (open == 0) continue;
    const TimeSpan span{std::max(start_of(slot), state.now), start_of(slot + 1)};
    if (claim == nullptr || !has(*claim, span, parted ? 1 : open)) return false;
  }
  return true;
}

Action right_to_sell(const Piece* piece) {
  return right_to_sell(piece == nullptr ? ContractId{} : piece->bought);
}

}  // namespace

Action right_to_sell(ContractId bought) {
  return bought == ContractId{} ? Action::kManageCapacity : Action::kSubmitJob;
}

Action right_to_sell(const State& state, const Contract& contract) {
  return right_to_sell(state.market.pieces.find(contract.piece.value));
}

Action right_to_trade(const State& state, const MarketOrder& order) {
  return order.side == Side::kBuy ? Action::kSubmitJob : right_to_sell(state.market.pieces.find(order.piece));
}

std::optional<Refusal> resale_problem(const State& state, const Resale& resale) {
  const Contract* contract = state.market.contracts.find(resale.bought.value);
  if (contract == nullptr || contract->buyer != resale.seller) return not_found();
  if (is_over(contract->state)) {
    return Refusal{.reason = Reason::kConflict,
                   .rule = "contract",
                   .message = "the contract is over, or was given back",
                   .fix = "tranche market contracts shows what you have"};
  }
  const std::int64_t end = contract->first_slot + contract->slots;
  if (resale.first_slot < contract->first_slot || resale.first_slot + resale.slots > end ||
      resale.quantity > contract->quantity) {
    return invalid("contract",
                   "that is more than the contract gives",
                   "offer at most " + portion_text(contract->quantity) + ", from " +
                       text(start_of(contract->first_slot)) + " to " + text(start_of(end)));
  }
  const std::uint32_t offered = most_offered(state, resale);
  if (offered + resale.quantity <= contract->quantity) return std::nullopt;
  return Refusal{.reason = Reason::kConflict,
                 .rule = "contract",
                 .message = "that part of the contract is offered or sold already",
                 .fix = offered < contract->quantity
                            ? "offer at most " + portion_text(contract->quantity - offered)
                            : "cancel the other offer (tranche market orders), or choose another window",
                 .limit = contract->quantity,
                 .used = offered,
                 .asked = resale.quantity};
}

bool is_held(const State& state,
             const Piece& piece,
             const MarketOrder& ask,
             std::int64_t first_slot,
             std::int64_t end_slot) {
  if (piece.bought == ContractId{}) return true;
  const Contract* contract = state.market.contracts.find(piece.bought.value);
  if (contract == nullptr || contract->state != ContractState::kAgreed || contract->end < start_of(end_slot))
    return false;
  return device_under(state, piece) == DeviceId{} || is_claimed(state, *contract, ask, first_slot, end_slot);
}

}  // namespace tranche::engine
