// SPDX-License-Identifier: Apache-2.0
// Delivery and settlement. What a contract is worth is split by time alone: the part delivered goes to the
// seller, the part that was not goes back, and both are taken from running totals, so nothing is lost to
// rounding.
#include <algorithm>
#include <array>
#include <set>

#include "base/check.hpp"
#include "engine/billing.hpp"
#include "engine/contract_costs.hpp"
#include "engine/contract_terms.hpp"
#include "engine/decide.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_portion.hpp"
#include "engine/spend.hpp"
#include "engine/trade_rules.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kSettleEvery = std::chrono::hours(1);

// Within that time, where slots meet: however many contracts there are, they fall due together.
Instant next_settlement(const Contract& contract) {
  return std::min(contract.end, start_of(slot_of(contract.settled + kSettleEvery)));
}

bool stands_on(const State& state, const Contract& contract, NodeId node) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (piece == nullptr) return false;
  const Device* device = state.device(device_under(state, *piece));
  return device == nullptr ? piece->node == node : device->node == node;
}

constexpr std::size_t kResumedMost = 1'000;  // In one decision.

struct Returning {  // What the state does not know yet.
  NodeId node{};
  std::set<ContractId> resumed{};
};

// Whether the device behind a contract takes work; of those of a peer nothing is known here. What was sold on
// is delivered while its seller gets it himself.
bool is_deliverable(const State& state,
                    const Contract& contract,
                    Instant at,
                    const Returning& returning = {}) {
  const Piece* piece = state.market.pieces.find(contract.piece.value);
  if (piece == nullptr) return true;
  const bool resold = piece->bought != ContractId{};
  const Contract* under = resold ? state.market.contracts.find(piece->bought.value) : nullptr;
  if (resold && under == nullptr) return false;  // Over, paid and forgotten: nothing is left to deliver.
  const bool agreed =
      under == nullptr || under->state == ContractState::kAgreed || returning.resumed.contains(under->id);
  if (!agreed || (under != nullptr && at >= under->end)) return false;
  const Device* device = state.device(device_under(state, *piece));
  if (device == nullptr) return true;
  // Others plan with a device that is maintained now; whoever bought this hour does not have it.
  const bool has_it = is_in_service(device->state) && device->state != DeviceState::kMaintenance;
  if (device->node == returning.node) return has_it;
  const NodeState node = state.nodes.at(device->node).state;
  return has_it && node != NodeState::kLost && node != NodeState::kRetired;
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

// Of which contract an event says that it is delivered, or not, or over, or for how long.
void note_contract(const Event& event, std::set<ContractId>& seen) {
  if (const auto* reclaimed = std::get_if<ContractReclaimed>(&event)) seen.insert(reclaimed->contract);
  if (const auto* interrupted = std::get_if<ContractInterrupted>(&event)) seen.insert(interrupted->contract);
  if (const auto* resumed = std::get_if<ContractResumed>(&event)) seen.insert(resumed->contract);
  if (const auto* settled = std::get_if<ContractSettled>(&event)) seen.insert(settled->contract);
}

// Given back before its end: what is left is no longer promised to anybody.
void free_rest(State& state, const Contract& contract, std::int64_t from) {
  Piece* piece = state.market.pieces.find(contract.piece.value);
  if (piece == nullptr) return;
  for (std::int64_t slot = std::max(from, contract.first_slot); slot < contract.first_slot + contract.slots;
       ++slot)
    piece->promised[static_cast<std::size_t>(slot - piece->first_slot)] -= contract.quantity;
  listing_changed(state, contract.piece);
}

// What a seller did with contracts that nobody needs any more.
void note_paid(Reliability& record, const Contract& contract) {
  record.seller = contract.seller;
  ++record.contracts;
  record.value.micros += contract.value.micros;
  record.earned.micros += contract.earned.micros;
  record.fee.micros += contract.fee.micros;
  record.refunded.micros += contract.refunded.micros;
  record.penalty.micros += contract.penalty.micros;
}

// With its claim; false while something else stands where that was.
bool append_resumption(
    const State& state, Instant at, const Contract& contract, ClaimsMade& made, Events& events) {
  Events back{ContractResumed{contract.id, contract.seller, lost_by(contract, at)}};
  if (append_claim_again(state, at, contract, made, back)) return false;
  events.insert(events.end(), std::make_move_iterator(back.begin()), std::make_move_iterator(back.end()));
  return true;
}

}  // namespace

bool is_over(ContractState state) {
  return state == ContractState::kCompleted || state == ContractState::kDefaulted;
}

void append_interruptions(const State& state, NodeId node, Instant at, Events& events) {
  for (const Contract* contract : contracts_on(state, node, ContractState::kAgreed)) {
    if (at < contract->end) events.emplace_back(ContractInterrupted{contract->id, contract->seller});
  }
}

void append_resumptions(const State& state, NodeId node, Instant at, Events& events) {
  Returning returning{.node = node, .resumed = {}};
  ClaimsMade made;
  for (const Contract* contract : contracts_on(state, node, ContractState::kInterrupted)) {
    if (at >= contract->end || contract->withdrawn || !is_deliverable(state, *contract, at, returning))
      continue;
    if (append_resumption(state, at, *contract, made, events)) returning.resumed.insert(contract->id);
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

void append_delivery(const State& state, Instant at, Events& events) {
  Returning returning;
  ClaimsMade made;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const bool running = at >= contract.start && at < contract.end;
    if (!running || is_over(contract.state) || contract.withdrawn) continue;
    const bool delivered = contract.state == ContractState::kAgreed;
    if (delivered == is_deliverable(state, contract, at, returning)) continue;
    if (delivered) {
      events.emplace_back(ContractInterrupted{contract.id, contract.seller});
      append_claim_end(state, contract.id, events);
      continue;
    }
    if (!append_resumption(state, at, contract, made, events)) continue;
    returning.resumed.insert(contract.id);
    if (returning.resumed.size() == kResumedMost) return;  // The rest with the next tick.
  }
}

void note_due(Market& market, Contract& contract) {
  contract.look_at = is_over(contract.state) ? Instant::max() : next_settlement(contract);
  if (!contract.unpaid.empty()) contract.look_at = std::min(contract.look_at, contract.unpaid.front().due);
  if (contract.look_at != Instant::max()) market.contracts_due[contract.look_at].push_back(contract.id);
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
  Events events{ContractInterrupted{contract->id, contract->seller, true}};
  append_claim_end(state, contract->id, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const ContractInterrupted& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  contract->state = ContractState::kInterrupted;
  contract->withdrawn = event.withdrawn;
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
  ClaimsMade made;
  if (auto r = append_claim_again(state, envelope.at, *contract, made, events)) return refuse(*r);
  return events;
}

void apply(State& state, const Envelope&, const ContractResumed& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  contract->state = ContractState::kAgreed;
  contract->withdrawn = false;
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
  note_refund(state, *contract, event.refunded, envelope.at);
  count_delivery(state, *contract, over ? contract->end : envelope.at, event.lost, event.earned);
  if (event.fee > Money{})
    cost_line(state,
              {.party = contract->seller,
               .payer = contract->seller_pays,
               .source = CostSource::kFee,
               .at = envelope.at})
        .amount.micros += event.fee.micros;
  // Also where nothing was earned: with the last of these the contract is forgotten.
  if (over || event.earned > Money{})
    contract->unpaid.push_back(
        {envelope.at + state.market.rules.dispute, {event.earned.micros - event.fee.micros}});
  contract->earned.micros += event.earned.micros;
  contract->fee.micros += event.fee.micros;
  contract->refunded.micros += event.refunded.micros;
  contract->penalty.micros += event.penalty.micros;
  contract->settled = envelope.at;
  contract->state = event.state;
  if (event.state == ContractState::kCompleted && envelope.at < contract->end)
    free_rest(state, *contract, slot_of(envelope.at));
  if (over) {
    contract->lost = event.lost;
    contract->down_since = {};
    Reliability& record = state.market.reliability[contract->seller];
    record.seller = contract->seller;
    const auto weight = [&](Duration time) {
      return contract->quantity * std::chrono::floor<std::chrono::seconds>(time).count();
    };
    record.sold += weight(contract->end - contract->start + contract->reclaimed);
    record.delivered += weight(contract->end - contract->start - contract->lost);
  }
  note_due(state.market, *contract);
}

void apply(State& state, const Envelope&, const ContractPaidOut& event) {
  Contract* contract = state.market.contracts.find(event.contract.value);
  if (contract == nullptr) return;
  const Currency currency = currency_of(state);
  const std::array legs{
      Leg{AccountId::make(contract->seller_pays, AccountKind::kPayable, currency), {-event.amount.micros}},
      Leg{AccountId::make(contract->seller_pays, AccountKind::kCredit, currency), event.amount}};
  post(state.ledger, legs);
  std::int64_t paid = event.amount.micros;
  auto& unpaid = contract->unpaid;
  while (!unpaid.empty() && unpaid.front().amount.micros <= paid) {
    paid -= unpaid.front().amount.micros;
    unpaid.erase(unpaid.begin());
  }
  if (is_over(contract->state) && unpaid.empty()) {
    note_paid(state.market.reliability[contract->seller], *contract);
    state.market.contracts.erase(event.contract.value);
  } else {
    note_due(state.market, *contract);
  }
}

void forget_contracts_due(Market& market, Instant at) {
  while (!market.contracts_due.empty() && market.contracts_due.begin()->first <= at) {
    const auto& [due, ids] = *market.contracts_due.begin();
    const bool waits = std::any_of(ids.begin(), ids.end(), [&, due = due](ContractId id) {
      const Contract* contract = market.contracts.find(id.value);
      return contract != nullptr && contract->look_at == due;
    });
    if (waits) return;
    market.contracts_due.erase(market.contracts_due.begin());
  }
}

bool contracts_due(const State& state, Instant at) {
  for (const auto& [due, ids] : state.market.contracts_due) {
    if (due > at) return false;
    for (const ContractId id : ids) {
      const Contract* contract = state.market.contracts.find(id.value);
      if (contract != nullptr && contract->look_at == due) return true;
    }
  }
  return false;
}

void append_contracts_due(const State& state, Instant at, Events& events) {
  constexpr std::size_t kMost = 10'000;
  std::set<ContractId> seen;
  for (const Event& event : events) note_contract(event, seen);
  for (const auto& [due, ids] : state.market.contracts_due) {
    if (due > at || seen.size() > kMost) break;
    for (const ContractId id : ids) {
      const Contract* contract = state.market.contracts.find(id.value);
      if (contract == nullptr || contract->look_at != due) continue;  // It was looked at since.
      // One that was shortened, and is due when it was before, stands here twice: it is settled once.
      if (!seen.insert(id).second) continue;
      if (!is_over(contract->state) && at >= next_settlement(*contract))
        events.emplace_back(settle(state, *contract, at, false));
      Money due_now{};
      bool any = false;
      for (const Payout& one : contract->unpaid) {
        if (one.due > at) break;
        due_now.micros += one.amount.micros;
        any = true;
      }
      if (any) events.emplace_back(ContractPaidOut{id, contract->seller, due_now});
    }
  }
}

}  // namespace tranche::engine
