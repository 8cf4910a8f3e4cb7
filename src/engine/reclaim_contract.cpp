// SPDX-License-Identifier: Apache-2.0
// A seller takes back what he sold, with notice: the contract ends earlier, the rest is refunded at once with
// a penalty from the bond unless it was sold as interruptible, and something as good is bought for the buyer
// where there is some.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/contract_terms.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

// The end of a slot at or after that: what is traded is whole slots.
Instant slot_end(Instant at) {
  return start_of(slot_of(at + kSlot - Duration(1)));
}

std::optional<Refusal> notice_problem(const State& state, const Contract& contract, Instant now, Instant at) {
  const Instant earliest = slot_end(now + state.market.rules.notice);
  if (contract.state != ContractState::kAgreed || at >= contract.end)
    return Refusal{.reason = Reason::kConflict,
                   .rule = "contract",
                   .message = id_text("ctr_", contract.id.value) + " is interrupted or over by then",
                   .fix = "tranche market contracts shows its state"};
  if (at >= earliest || at <= contract.start) return std::nullopt;
  return Refusal{.reason = Reason::kPolicy,
                 .rule = "notice",
                 .message = "a seller says " + text(state.market.rules.notice) +
                            " before that he takes back what he sold",
                 .fix = "take it back at " + text(earliest) + " or later"};
}

ContractReclaimed cut(const State& state, const Contract& contract, Instant at) {
  const Duration whole = contract.end - contract.start;
  const std::int64_t kept = share(contract.value, at - contract.start, whole);
  const std::int64_t rest = contract.value.micros - kept;
  const bool free_to_end = state.market.instruments[contract.book - 1].instrument.interruptible;
  const std::int64_t bond = contract.bond.micros - contract.penalty.micros;
  const std::int64_t bond_of_rest = share({bond}, contract.end - at, whole);
  const auto fine = static_cast<std::int64_t>(Int128{rest} * state.market.rules.penalty_bps / 10'000);
  const std::int64_t penalty = free_to_end ? 0 : std::min(fine, bond_of_rest);
  return {.contract = contract.id,
          .party = contract.seller,
          .at = at,
          .refunded = {rest},
          .penalty = {penalty},
          .released = {bond_of_rest - penalty}};
}

}  // namespace

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const ReclaimContract& command) {
  const Contract* contract = state.market.contracts.find(command.contract.value);
  if (auto refusal = delivery_problem(state, actor, contract)) return refuse(*refusal);
  const Instant wanted = command.end == Instant{} ? envelope.at + state.market.rules.notice : command.end;
  const Instant at = slot_end(std::max(wanted, envelope.at));
  if (auto refusal = notice_problem(state, *contract, envelope.at, at)) return refuse(*refusal);
  if (at <= contract->start) {  // Nothing of it was to be delivered yet.
    Events events = substitute(state, *contract, envelope.at);
    if (events.empty()) {
      events.emplace_back(settle(state, *contract, envelope.at, true));
      append_claim_end(state, contract->id, events);
    }
    append_claim_back(state, *contract, contract->start, events);
    return events;
  }
  const ContractReclaimed reclaimed = cut(state, *contract, at);
  const Money back{reclaimed.refunded.micros + reclaimed.penalty.micros};
  Events events = bought_instead(state, *contract, at, back, {reclaimed});
  if (events.empty()) events = {reclaimed};
  append_claims(state, envelope.at, events);
  append_claim_cut(state, contract->id, at, events);
  append_claim_back(state, *contract, at, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const ContractReclaimed& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  const Currency currency = currency_of(state);
  const AccountId buyer = AccountId::make(contract->buyer_pays, AccountKind::kCredit, currency);
  const AccountId seller = AccountId::make(contract->seller_pays, AccountKind::kCredit, currency);
  release(state.ledger, seller, {event.released.micros + event.penalty.micros});
  const std::array legs{
      Leg{AccountId::make(kPlatform, AccountKind::kEscrow, currency), {-event.refunded.micros}},
      Leg{buyer, {event.refunded.micros + event.penalty.micros}},
      Leg{seller, {-event.penalty.micros}}};
  post(state.ledger, legs);
  note_refund(state, *contract, event.refunded, envelope.at);
  contract->reclaimed += contract->end - event.at;
  contract->end = event.at;
  contract->value.micros -= event.refunded.micros;
  contract->bond.micros -= event.released.micros + event.penalty.micros;
  const auto slots = static_cast<std::uint32_t>(slot_of(event.at) - contract->first_slot);
  if (Piece* piece = state.market.pieces.find(contract->piece.value)) {
    for (std::uint32_t i = slots; i < contract->slots; ++i)
      piece->promised[static_cast<std::size_t>(contract->first_slot - piece->first_slot) + i] -=
          contract->quantity;
    listing_changed(state, contract->piece);
  }
  contract->slots = slots;
  note_due(state.market, *contract);
}

}  // namespace tranche::engine
