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

// Over at that time, or not to begin at all. The rest is paid back, and bought elsewhere where there is
// something as good.
Events cut_short(const State& state, const Contract& contract, Instant now, Instant at) {
  Events events;
  if (at <= contract.start) {
    events = substitute(state, contract, now);
    if (!events.empty()) return events;
    events.emplace_back(settle(state, contract, now, true));
    append_claim_end(state, contract.id, events);
  } else {
    const ContractReclaimed reclaimed = cut(state, contract, at);
    const Money back{reclaimed.refunded.micros + reclaimed.penalty.micros};
    events = bought_instead(state, contract, at, back, {reclaimed});
    if (events.empty()) events = {reclaimed};
    append_claims(state, now, events);
    append_claim_cut(state, contract.id, at, events);
  }
  append_claim_back(state, contract, std::max(contract.start, at), events);
  return events;
}

// Of what was settled already nothing is taken back.
bool is_settled_beyond(const Contract& contract, Instant at) {
  return contract.settled > contract.start && contract.settled > at;
}

// Until when its seller, who had bought it himself, has what he sold on; nothing: for all of it, or it is
// interrupted anyway.
std::optional<Instant> falls_short_at(const State& state, const Contract& contract, Instant now) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (contract.state != ContractState::kAgreed || piece == nullptr || piece->bought == ContractId{})
    return std::nullopt;
  const Contract* under = state.market.contracts.find(piece->bought.value);
  if (under == nullptr || is_over(under->state))
    return now < contract.start ? std::optional(contract.start) : std::nullopt;
  const bool shorter = under->end < contract.end && !is_settled_beyond(contract, under->end);
  return shorter ? std::optional(under->end) : std::nullopt;
}

// Whoever bought from its buyer is told now, and not only with the next tick of a quiet server.
void look_at_sold_on(Market& market, const Contract& cut, Instant now) {
  for (const std::uint64_t id : market.contracts.ids()) {
    Contract& contract = *market.contracts.find(id);
    const Piece* piece = market.pieces.find(contract.piece.value);
    if (piece == nullptr || piece->bought != cut.id || contract.state != ContractState::kAgreed ||
        contract.end <= cut.end || is_settled_beyond(contract, cut.end))
      continue;
    contract.look_at = now;
    market.contracts_due[now].push_back(contract.id);
  }
}

bool has_fills(const Events& events) {
  return std::any_of(events.begin(), events.end(), [](const Event& event) {
    return std::holds_alternative<OrderFilled>(event);
  });
}

}  // namespace

void append_cut_short(const State& state, Instant now, Events& events) {
  constexpr std::size_t kMost = 1'000;  // The rest with the next tick.
  std::size_t count = 0;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const auto at = falls_short_at(state, contract, now);
    if (!at) continue;
    Events more = cut_short(state, contract, now, *at);
    const bool bought = has_fills(more);
    if (bought && count > 0) return;  // What is bought must see what the others lost.
    events.insert(events.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    if (bought || ++count == kMost) return;
  }
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const ReclaimContract& command) {
  const Contract* contract = state.market.contracts.find(command.contract.value);
  if (auto refusal = delivery_problem(state, actor, contract)) return refuse(*refusal);
  const Instant wanted = command.end == Instant{} ? envelope.at + state.market.rules.notice : command.end;
  const Instant at = slot_end(std::max(wanted, envelope.at));
  if (auto refusal = notice_problem(state, *contract, envelope.at, at)) return refuse(*refusal);
  Events events = cut_short(state, *contract, envelope.at, at);
  if (at <= contract->start)  // All of it is the seller's to offer again.
    events.emplace_back(
        ContractReclaimed{.contract = contract->id, .party = contract->seller, .at = contract->start});
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
  look_at_sold_on(state.market, *contract, envelope.at);
}

}  // namespace tranche::engine
