// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a match to events: shared by orders, by asks whose price fell, and by substitution.
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

struct Admitting {
  const State& state;
  const Piece* fresh = nullptr;  // A piece that is not in the state yet.
};
[[nodiscard]] policy::Admission admission_of(const Admitting&);
// Whether the seller has it himself in those slots, and its device is in service: what fails, or is taken
// back from him after he offered it, is not sold.
[[nodiscard]] bool can_be_sold(
    const State&, const Piece&, const MarketOrder& ask, std::int64_t first_slot, std::int64_t end_slot);
// Counted from now on: the slot that runs, of which only the rest is paid, and as many as were asked for. An
// order for no slots stays one for none.
template <class Wanted>
[[nodiscard]] Wanted from_now_on(Wanted wanted, Instant now) {
  wanted.first_slot = slot_of(now);
  if (wanted.slots > 0 && start_of(wanted.first_slot) < now) ++wanted.slots;
  return wanted;
}
// The book of an order's instrument; zero: nothing like it was ever traded. Its first slot is known.
[[nodiscard]] std::uint64_t book_for(const State&, const PlaceOrder&);
[[nodiscard]] Instrument canonical(Instrument);  // With the model as the catalogue names it.
// Whether it can be traded at all then: not in the past, nor too far ahead.
[[nodiscard]] std::optional<Refusal> traded_window_problem(const MarketRules&,
                                                           std::int64_t first_slot,
                                                           std::uint32_t slots,
                                                           Instant now);
// Says no where a node of the tree forbids to buy or to sell.
[[nodiscard]] std::optional<Refusal> trade_problem(const State&, PartyId party, Side side);
// Nothing could be had at once: says what could, so that the next try can fit.
[[nodiscard]] Refusal nothing_left(const State&, const MarketOrder& order);
// What the buyer pays for a fill made then; of a slot that has begun, only the rest.
[[nodiscard]] Money value_of(const policy::Fill&, Instant at);
// Counts what an ask offers of its piece, or no longer does.
void promise(Market&, const MarketOrder& order, int sign);
// Decides an order in a known book; an ask sells from the piece. Appends its events, or says why not.
[[nodiscard]] std::optional<Refusal> append_order(
    const State&, const PlaceOrder&, const Piece*, Instant at, Events&);
// What the order must set aside: all it could cost, or the bond of what it would bring. Nothing: too large.
[[nodiscard]] std::optional<Money> cover_of(const State&, const MarketOrder&);
// Appends one OrderFilled for each fill, contracts numbered from `next_contract`; what the buyer pays in all.
Money append_fills(
    const State&, const MarketOrder& taker, const policy::Match&, Instant at, Events&, std::uint64_t next);

// Nothing is traded where the events have contracts already that are not folded in (not `quiet`).
void append_market_due(const State&, Instant at, bool quiet, Events&);
// Quotes that nobody took up in time.
[[nodiscard]] bool quotes_due(const State&, Instant at);
void append_quotes_over(const State&, Instant at, Events&);
// But for those that the events have something of already: they wait for the next tick.
void append_contracts_due(const State&, Instant at, Events&);
// Whether a contract is over or to be settled, or what it earned to be paid out.
[[nodiscard]] bool contracts_due(const State&, Instant at);
void forget_contracts_due(Market&, Instant at);
// Time stops counting for a contract whose device takes no work any more, and goes on when it does again.
void append_delivery(const State&, Instant at, Events&);
// Time stops counting for what a lost node had sold, and goes on when it is back.
void append_interruptions(const State&, NodeId node, Instant at, Events&);
void append_resumptions(const State&, NodeId node, Instant at, Events&);
// What was sold on of a contract that now ends earlier ends with it, and what has nothing under it any more
// does not begin.
void append_cut_short(const State&, Instant at, Events&);
// Buys equal capacity for one interrupted contract, where there is some at no higher price.
void append_substitution(const State&, Instant at, Events&);
// Indexes of an order, a piece or a contract, as apply() and a snapshot's reader make them.
void note_due(Market&, const MarketOrder&);
void note_due(Market&, Contract&);
void note_piece(Market&, const Piece&);
// What everybody may see of a trade.
void note_trade(Market&, const OrderFilled&, std::uint64_t book, Instant at);
void forget_past(Market&, Instant at);  // Lists and pieces of windows that are over.

}  // namespace tranche::engine
