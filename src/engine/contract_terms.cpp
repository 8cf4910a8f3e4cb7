// SPDX-License-Identifier: Apache-2.0
#include "engine/contract_terms.hpp"

#include <algorithm>

#include "engine/billing.hpp"
#include "engine/contract_costs.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_portion.hpp"
#include "engine/resale.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

// What of an undelivered part there is a penalty for. What may be taken back may not vanish without notice:
// that much of it counts.
std::int64_t penal(const State& state, const Contract& contract, std::int64_t refunded, Duration lost) {
  if (!state.market.instruments[contract.book - 1].instrument.interruptible) return refunded;
  const Duration counted = std::min(lost, state.market.rules.notice);
  return std::min(refunded, share(contract.value, counted, contract.end - contract.start));
}

// The rest of a contract as a bid in a book, at no higher price: what a substitute would have to be.
MarketOrder rest_of(const State& state, const Contract& contract, std::uint64_t book, Instant at) {
  const std::int64_t first = std::max(contract.first_slot, slot_of(at));
  const std::int64_t end = contract.first_slot + contract.slots;
  MarketOrder bid{.id = state.market.next_order,
                  .book = book,
                  .party = contract.buyer,
                  .tenant = tenant_of(state, contract.buyer),
                  .payer = contract.buyer_pays,
                  .side = Side::kBuy,
                  .time_in_force = TimeInForce::kFok,
                  .restricted = has_trade_rules(state, contract.buyer),
                  .workload = contract.workload,
                  .price = contract.price,
                  .first_slot = first,
                  .slots = static_cast<std::uint32_t>(end - first),
                  .quantity = contract.quantity,
                  .open = contract.quantity,
                  .slots_min = static_cast<std::uint32_t>(end - first)};
  bid.price_first = bid.price;
  bid.held = cover_of(state, bid).value_or(Money{});
  return bid;
}

// Whether what is traded in one place serves whoever bought the other: the same device and place, kept apart
// at least as well, and no easier taken back.
bool is_as_good(const Instrument& other, const Instrument& bought, std::uint32_t quantity) {
  if (other.model != bought.model || other.region != bought.region || other.shape != bought.shape)
    return false;
  if (other.interruptible && !bought.interruptible) return false;
  // A device to oneself is better than a share of one, where it is whole devices that were bought.
  return other.isolation == bought.isolation ||
         (other.isolation == Isolation::kDedicated && quantity % kWholePortion == 0);
}

// Books in which a substitute may be found: what is equal first, then what is better.
std::vector<std::uint64_t> books_for(const State& state, const Contract& contract) {
  const Instrument& bought = state.market.instruments[contract.book - 1].instrument;
  std::vector<std::uint64_t> books{contract.book};
  for (const BookState& other : state.market.instruments)
    if (other.id != contract.book && is_as_good(other.instrument, bought, contract.quantity))
      books.push_back(other.id);
  return books;
}

}  // namespace

std::int64_t share(Money value, Duration part, Duration whole) {
  return static_cast<std::int64_t>(Int128{value.micros} * part.count() / whole.count());
}

Duration lost_by(const Contract& contract, Instant at) {
  const bool down = contract.down_since != Instant{};
  return contract.lost + (down ? std::max(at - contract.down_since, Duration{}) : Duration{});
}

ContractSettled settle(const State& state, const Contract& contract, Instant now, bool closing) {
  const Instant at = std::clamp(now, contract.start, contract.end);
  const Duration whole = contract.end - contract.start;
  Duration lost = lost_by(contract, at);
  const Duration delivered = std::clamp(at - contract.start - lost, Duration{}, whole);
  const bool last = closing || at == contract.end;
  if (closing) lost += contract.end - at;
  const std::int64_t earned = share(contract.value, delivered, whole);
  const std::int64_t refunded = last ? contract.value.micros - earned : share(contract.value, lost, whole);
  const MarketRules& rules = state.market.rules;
  const auto part_of = [](std::int64_t amount, std::uint32_t bps) {
    return static_cast<std::int64_t>(Int128{amount} * bps / 10'000);
  };
  const std::int64_t penalty =
      std::min(part_of(penal(state, contract, refunded, lost), rules.penalty_bps), contract.bond.micros);
  const ContractState end = closing || contract.state == ContractState::kInterrupted
                                ? ContractState::kDefaulted
                                : ContractState::kCompleted;
  // Running totals may only grow, whatever became of the rules in between.
  const auto since = [](std::int64_t total, Money before) {
    return Money{std::max<std::int64_t>(total - before.micros, 0)};
  };
  return {.contract = contract.id,
          .party = contract.seller,
          .state = last ? end : contract.state,
          .earned = since(earned, contract.earned),
          .fee = since(part_of(earned, rules.fee_bps), contract.fee),
          .refunded = since(refunded, contract.refunded),
          .penalty = since(penalty, contract.penalty),
          .lost = lost};
}

std::optional<Refusal> delivery_problem(const State& state, const Actor& actor, const Contract* contract) {
  if (contract == nullptr) return not_found();
  const Action action = right_to_sell(state, *contract);
  if (!may(state, actor, action, contract->seller) &&
      !may(state, actor, Action::kViewBilling, contract->buyer))
    return not_found();
  return check_access(state, actor, action, contract->seller);
}

Events bought_instead(const State& state, const Contract& contract, Instant at, Money back, Events end) {
  for (const std::uint64_t book : books_for(state, contract)) {
    const MarketOrder bid = rest_of(state, contract, book, at);
    const Admitting context{state, nullptr};
    const policy::Match match = state.market.books.match(bid, admission_of(context));
    if (match.fills.empty()) continue;
    Events events = end;
    events.emplace_back(OrderPlaced{bid.party, bid});
    const Money cost = append_fills(state, bid, match, at, events, state.market.next_contract);
    const Money have = available(state.ledger, credit_account(state, bid.payer));
    if (have.micros + back.micros >= cost.micros) return events;
  }
  return {};
}

Events substitute(const State& state, const Contract& contract, Instant at) {
  const ContractSettled end = settle(state, contract, at, true);
  const Money back{end.refunded.micros + end.penalty.micros};
  Events events = bought_instead(state, contract, at, back, {end});
  if (events.empty()) return {};
  append_claim_end(state, contract.id, events);
  append_claims(state, at, events);
  append_claim_back(state, contract, std::max(contract.start, at), events);
  return events;
}

void note_refund(State& state, const Contract& contract, Money refunded, Instant at) {
  if (refunded <= Money{}) return;
  add_spent(state, contract.buyer, {-refunded.micros}, at);
  CostLine& line = cost_line(state, {.party = contract.buyer, .payer = contract.buyer_pays, .at = at});
  const bool counted_at_once = contract.counted == Duration::max();
  if (!counted_at_once) count_as_delivered(line);
  line.credited.micros += refunded.micros;
  if (counted_at_once && line.as_delivered) line.delivered.micros -= refunded.micros;
}

}  // namespace tranche::engine
