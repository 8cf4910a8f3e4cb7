// SPDX-License-Identifier: Apache-2.0
// Delivery and settlement. What a contract is worth is split by time alone: the part delivered goes to the
// seller, the part that was not goes back, and both are taken from running totals, so nothing is lost to
// rounding.
#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kSettleEvery = std::chrono::hours(24);

bool is_over(ContractState state) {
  return state == ContractState::kCompleted || state == ContractState::kDefaulted;
}

std::int64_t share(Money value, Duration part, Duration whole) {
  return static_cast<std::int64_t>(Int128{value.micros} * part.count() / whole.count());
}

Duration lost_by(const Contract& contract, Instant at) {
  const bool down = contract.down_since != Instant{};
  return contract.lost + (down ? std::max(at - contract.down_since, Duration{}) : Duration{});
}

// What is due now. With `closing`, everything after `at` counts as not delivered, and the contract is over.
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
  const bool free_to_end = state.market.instruments[contract.book - 1].instrument.interruptible;
  const std::int64_t penalty =
      free_to_end ? 0 : std::min(part_of(refunded, rules.penalty_bps), contract.bond.micros);
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
  if (contract == nullptr || !(may(state, actor, Action::kManageCapacity, contract->seller) ||
                               may(state, actor, Action::kViewBilling, contract->buyer)))
    return not_found();
  return check_access(state, actor, Action::kManageCapacity, contract->seller);
}

// The rest of a contract as a bid, at no higher price: what a substitute would have to be.
MarketOrder rest_of(const State& state, const Contract& contract, Instant at) {
  const std::int64_t first = std::max(contract.first_slot, slot_of(at));
  const std::int64_t end = contract.first_slot + contract.slots;
  MarketOrder bid{.id = state.market.next_order,
                  .book = contract.book,
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

// The end of a contract and another in its place; nothing when there is none, or it is not covered.
Events substitute(const State& state, const Contract& contract, Instant at) {
  const MarketOrder bid = rest_of(state, contract, at);
  const Admitting context{state, nullptr};
  const policy::Match match = state.market.books.match(bid, admission_of(context));
  if (match.fills.empty()) return {};
  const ContractSettled end = settle(state, contract, at, true);
  Events events{end, OrderPlaced{bid.party, bid}};
  const Money cost = append_fills(state, bid, match, at, events, state.market.next_contract);
  const Money have = available(state.ledger, credit_account(state, bid.payer));
  if (have.micros + end.refunded.micros + end.penalty.micros < cost.micros) return {};
  append_claim_end(state, contract.id, events);
  append_claims(state, at, events);
  return events;
}

bool stands_on(const State& state, const Contract& contract, NodeId node) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (piece == nullptr) return false;
  const Device* device = state.device(piece->device);
  return device == nullptr ? piece->node == node : device->node == node;
}

// Contracts in a state whose capacity is on the node, oldest first.
std::vector<const Contract*> contracts_on(const State& state, NodeId node, ContractState wanted) {
  std::vector<const Contract*> out;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract* contract = state.market.contracts.find(id);
    if (contract->state == wanted && stands_on(state, *contract, node)) out.push_back(contract);
  }
  return out;
}

}  // namespace

void append_interruptions(const State& state, NodeId node, Instant at, Events& events) {
  for (const Contract* contract : contracts_on(state, node, ContractState::kAgreed)) {
    if (at < contract->end) events.emplace_back(ContractInterrupted{contract->id, contract->seller});
  }
}

void append_resumptions(const State& state, NodeId node, Instant at, Events& events) {
  for (const Contract* contract : contracts_on(state, node, ContractState::kInterrupted)) {
    if (at >= contract->end) continue;
    events.emplace_back(ContractResumed{contract->id, contract->seller, lost_by(*contract, at)});
  }
}

void append_substitution(const State& state, Instant at, Events& events) {
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract* contract = state.market.contracts.find(id);
    if (contract->state != ContractState::kInterrupted || at >= contract->end) continue;
    Events more = substitute(state, *contract, at);
    if (more.empty()) continue;
    events.insert(events.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return;  // One a tick: the next must see what this one took.
  }
}

void note_due(Market& market, const Contract& contract) {
  const Duration dispute = market.rules.dispute;
  const Instant due = is_over(contract.state) ? contract.settled + dispute
                                              : std::min(contract.end, contract.settled + kSettleEvery);
  market.contracts_due[due].push_back(contract.id);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const InterruptContract& command) {
  const Contract* contract = state.market.contracts.find(command.contract.value);
  if (auto refusal = delivery_problem(state, actor, contract)) return refuse(*refusal);
  if (contract->state != ContractState::kAgreed || envelope.at >= contract->end) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "contract",
                          .message = "the contract is interrupted or over already",
                          .fix = "tranche market contracts shows its state"});
  }
  if (auto events = substitute(state, *contract, envelope.at); !events.empty()) return events;
  Events events{ContractInterrupted{contract->id, contract->seller}};
  append_claim_end(state, contract->id, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const ContractInterrupted& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  contract->state = ContractState::kInterrupted;
  contract->down_since = std::max(envelope.at, contract->start);
}

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const ResumeContract& command) {
  const Contract* contract = state.market.contracts.find(command.contract.value);
  if (auto refusal = delivery_problem(state, actor, contract)) return refuse(*refusal);
  if (contract->state != ContractState::kInterrupted) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "contract",
                          .message = "the contract is not interrupted",
                          .fix = "tranche market contracts shows its state"});
  }
  const Instant at = std::min(envelope.at, contract->end);
  Events events{ContractResumed{contract->id, contract->seller, lost_by(*contract, at)}};
  if (auto r = append_claim_again(state, envelope.at, *contract, events)) return refuse(*r);
  return events;
}

void apply(State& state, const Envelope&, const ContractResumed& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  contract->state = ContractState::kAgreed;
  contract->down_since = {};
  contract->lost = event.lost;
}

void apply(State& state, const Envelope& envelope, const ContractSettled& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  const Currency currency = currency_of(state);
  const auto account = [&](PartyId owner, AccountKind kind) {
    return AccountId::make(owner, kind, currency);
  };
  const AccountId buyer = account(contract->buyer_pays, AccountKind::kCredit);
  const AccountId seller = account(contract->seller_pays, AccountKind::kCredit);
  const bool over = is_over(event.state);
  release(
      state.ledger, seller, over ? Money{contract->bond.micros - contract->penalty.micros} : event.penalty);
  const std::array legs{
      Leg{account(kPlatform, AccountKind::kEscrow), {-event.earned.micros - event.refunded.micros}},
      Leg{account(contract->seller_pays, AccountKind::kPayable), {event.earned.micros - event.fee.micros}},
      Leg{account(kPlatform, AccountKind::kFees), event.fee},
      Leg{buyer, {event.refunded.micros + event.penalty.micros}},
      Leg{seller, {-event.penalty.micros}}};
  post(state.ledger, legs);
  if (event.refunded > Money{}) {
    add_spent(state, contract->buyer, {-event.refunded.micros}, envelope.at);
    cost_line(state, contract->buyer, {}, envelope.at).credited.micros += event.refunded.micros;
  }
  contract->earned.micros += event.earned.micros;
  contract->fee.micros += event.fee.micros;
  contract->refunded.micros += event.refunded.micros;
  contract->penalty.micros += event.penalty.micros;
  contract->settled = envelope.at;
  contract->state = event.state;
  if (over) {
    contract->lost = event.lost;
    contract->down_since = {};
    Reliability& record = state.market.reliability[contract->seller];
    record.seller = contract->seller;
    const auto weight = [&](Duration time) {
      return contract->quantity * std::chrono::floor<std::chrono::seconds>(time).count();
    };
    record.sold += weight(contract->end - contract->start);
    record.delivered += weight(contract->end - contract->start - contract->lost);
  }
  note_due(state.market, *contract);
}

void apply(State& state, const Envelope&, const ContractPaidOut& event) {
  const Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  const Currency currency = currency_of(state);
  const std::array legs{
      Leg{AccountId::make(contract->seller_pays, AccountKind::kPayable, currency), {-event.amount.micros}},
      Leg{AccountId::make(contract->seller_pays, AccountKind::kCredit, currency), event.amount}};
  post(state.ledger, legs);
  state.market.contracts.erase(event.contract.value);
}

void append_contracts_due(const State& state, Instant at, Events& events) {
  constexpr std::size_t kMost = 10'000;
  std::size_t count = 0;
  for (const auto& [due, ids] : state.market.contracts_due) {
    if (due > at || count > kMost) break;
    for (const ContractId id : ids) {
      const Contract* contract = state.market.contracts.find(id.value);
      if (contract == nullptr) continue;
      ++count;
      if (!is_over(contract->state)) {
        if (at < std::min(contract->end, contract->settled + kSettleEvery)) continue;
        events.emplace_back(settle(state, *contract, at, false));
      } else if (at >= contract->settled + state.market.rules.dispute) {
        events.emplace_back(
            ContractPaidOut{id, contract->seller, {contract->earned.micros - contract->fee.micros}});
      }
    }
  }
}

}  // namespace tranche::engine
