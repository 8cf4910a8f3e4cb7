// SPDX-License-Identifier: Apache-2.0
// What people may do to the ledger: pay in, allow an overdraft, correct by a reversing entry, set aside.
#include <algorithm>
#include <array>

#include "engine/decide.hpp"
#include "engine/refusals.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kLegsMax = 64;

Refusal refusal_of(LedgerFault fault) {
  switch (fault) {
    case LedgerFault::kOverdrawn:
      return {.reason = Reason::kBudget,
              .rule = "overdraft",
              .message = "an account would go below what it may",
              .fix = "pay in first, or allow an overdraft"};
    case LedgerFault::kTooLarge:
      return invalid("amount", "the amount is larger than the ledger keeps", "post a smaller amount");
    case LedgerFault::kMixedCurrencies:
      return invalid("currency", "the legs are of different currencies", "post each currency by itself");
    case LedgerFault::kUnbalanced:
    case LedgerFault::kNone:
      break;
  }
  return invalid("balance", "the legs do not add up to zero", "what one account gives, another takes");
}

Decision posted(const State& state, Posted event) {
  if (!event.reference.empty()) {
    const auto used = state.ledger.by_reference.find(event.reference);
    if (used != state.ledger.by_reference.end()) {
      return refuse(Refusal{.reason = Reason::kConflict,
                            .rule = "reference",
                            .message = "a posting with reference '" + event.reference + "' exists already",
                            .fix = "nothing is left to do, or use the reference of the other payment"});
    }
  }
  if (event.legs.size() > kLegsMax)
    return refuse(invalid("legs", "a posting has at most 64 legs", "split it"));
  const LedgerFault fault = fault_of(state.ledger, event.legs);
  if (fault != LedgerFault::kNone) return refuse(refusal_of(fault));
  event.id = {state.ledger.next_posting};
  return Events{std::move(event)};
}

Money overdraft_of(const State& state, AccountId id) {
  const Account* account = find_account(state.ledger, id);
  return account == nullptr ? Money{} : account->overdraft;
}

// Only the operator touches accounts; an administrator may look.
std::optional<Refusal> account_problem(const State& state, const Actor& actor, PartyId party) {
  return check_access(state, actor, Action::kManagePlatform, party);
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const TopUp& command) {
  if (auto refusal = account_problem(state, actor, command.party)) return refuse(*refusal);
  if (command.amount <= Money{})
    return refuse(invalid("amount", "an amount paid in is above zero", "reverse a posting to take it back"));
  const Currency currency = currency_of(state);
  Posted event{.id = {},
               .memo = command.memo.empty() ? "paid in" : command.memo,
               .reference = command.reference,
               .reverses = {},
               .legs = {}};
  // What is owed on invoices is paid first; only what is left over makes credit.
  const AccountId owing = AccountId::make(command.party, AccountKind::kReceivable, currency);
  const std::int64_t owed = std::max<std::int64_t>(-balance(state.ledger, owing).micros, 0);
  const std::int64_t paid = std::min(owed, command.amount.micros);
  if (paid < command.amount.micros)
    event.legs.push_back(
        {AccountId::make(command.party, AccountKind::kCredit, currency), {command.amount.micros - paid}});
  if (paid > 0) event.legs.push_back({owing, {paid}});
  event.legs.push_back(
      {AccountId::make(kPlatform, AccountKind::kClearing, currency), {-command.amount.micros}});
  return posted(state, std::move(event));
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const PostEntry& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  return posted(
      state,
      {.id = {}, .memo = command.memo, .reference = command.reference, .reverses = {}, .legs = command.legs});
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ReversePosting& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const auto found = state.ledger.postings.find(command.posting);
  if (found == state.ledger.postings.end()) return refuse(not_found());
  if (found->second.reversed_by != PostingId{} || found->second.reverses != PostingId{}) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "reversed",
                          .message = "this posting has been reversed, or is itself a reversal",
                          .fix = "make a new posting"});
  }
  Posted event{.id = {}, .memo = command.memo, .reference = {}, .reverses = command.posting, .legs = {}};
  for (const Leg& leg : found->second.legs) event.legs.push_back({leg.account, {-leg.amount.micros}});
  return posted(state, std::move(event));
}

void apply(State& state, const Envelope& envelope, const Posted& event) {
  Ledger& ledger = state.ledger;
  if (event.id.value < ledger.next_posting) return;  // Folded in already.
  post(ledger, event.legs);
  ledger.next_posting = event.id.value + 1;
  if (event.reverses != PostingId{}) {
    const auto original = ledger.postings.find(event.reverses);
    if (original != ledger.postings.end()) original->second.reversed_by = event.id;
  }
  if (!event.reference.empty()) ledger.by_reference.emplace(event.reference, event.id);
  ledger.postings.emplace_hint(
      ledger.postings.end(),
      event.id,
      Posting{event.id, envelope.at, event.memo, event.reference, event.reverses, {}, event.legs});
  state.index.capacity->changed();
  look_at_waiting_groups(state);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetOverdraft& command) {
  if (auto refusal = account_problem(state, actor, command.party)) return refuse(*refusal);
  constexpr Money kMost = units(1'000'000'000);
  const AccountId id = AccountId::make(command.party, command.kind, currency_of(state));
  if (command.overdraft < Money{} || command.overdraft > kMost)
    return refuse(invalid("overdraft", "an overdraft is from zero to a thousand million", "give less"));
  if (!command.bounded) return Events{OverdraftSet{command.party, id, overdraft_of(state, id), {}, false}};
  const Account* account = find_account(state.ledger, id);
  const Money before = account == nullptr ? Money{} : account->overdraft;
  const Money free = account == nullptr ? Money{} : available(state.ledger, id);
  if (free.micros - before.micros + command.overdraft.micros < 0) {
    return refuse(Refusal{.reason = Reason::kBudget,
                          .rule = "overdraft",
                          .message = "more than that has been spent or set aside already",
                          .fix = "pay in first",
                          .limit = before.micros,
                          .used = before.micros - free.micros,
                          .asked = command.overdraft.micros});
  }
  return Events{OverdraftSet{command.party, id, before, command.overdraft, true}};
}

void apply(State& state, const Envelope&, const OverdraftSet& event) {
  hold(state.ledger, event.account, {});
  Account& account = *state.ledger.accounts.find(event.account.value);
  account.overdraft = event.after;
  account.bounded = event.bounded && !is_bounded(event.account.kind());
  state.index.capacity->changed();
  look_at_waiting_groups(state);
}

Decision decide(const State& state, const Envelope& envelope, const Actor& actor, const PlaceHold& command) {
  if (auto refusal = account_problem(state, actor, command.party)) return refuse(*refusal);
  const AccountId id = AccountId::make(command.party, AccountKind::kCredit, currency_of(state));
  if (command.amount <= Money{} || (command.expires != Instant{} && command.expires <= envelope.at))
    return refuse(invalid("hold", "a hold is above zero and ends in the future", "give another time"));
  if (!can_hold(state.ledger, id, command.amount)) return refuse(not_covered(state, id, command.amount));
  return Events{HoldPlaced{{state.ledger.next_hold}, id, command.amount, command.expires, command.purpose}};
}

void apply(State& state, const Envelope&, const HoldPlaced& event) {
  if (event.id.value < state.ledger.next_hold) return;
  state.ledger.next_hold = event.id.value + 1;
  hold(state.ledger, event.account, event.amount);
  state.ledger.holds.emplace_hint(state.ledger.holds.end(),
                                  event.id,
                                  Hold{event.id, event.account, event.amount, event.expires, event.purpose});
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const EndHold& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const auto found = state.ledger.holds.find(command.hold);
  if (found == state.ledger.holds.end()) return refuse(not_found());
  const Hold& held = found->second;
  if (command.captured < Money{} || command.captured > held.amount) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "captured",
                          .message = "a capture is from zero to what is held",
                          .fix = "take at most what is held; charge the rest by itself",
                          .limit = held.amount.micros,
                          .asked = command.captured.micros});
  }
  if (command.captured > Money{}) {
    const std::array legs{Leg{held.account, {-command.captured.micros}}, Leg{command.to, command.captured}};
    const LedgerFault fault = fault_of(state.ledger, legs, held.amount);
    if (fault != LedgerFault::kNone) return refuse(refusal_of(fault));
  }
  return Events{HoldEnded{held.id, held.account, held.amount, command.captured, command.to}};
}

void apply(State& state, const Envelope&, const HoldEnded& event) {
  if (state.ledger.holds.erase(event.id) == 0) return;
  release(state.ledger, event.account, event.amount);
  if (event.captured == Money{}) return;
  const std::array legs{Leg{event.account, {-event.captured.micros}}, Leg{event.to, event.captured}};
  post(state.ledger, legs);
}

void append_expired_holds(const State& state, Instant at, Events& events) {
  for (const auto& [id, held] : state.ledger.holds) {
    if (held.expires != Instant{} && held.expires <= at)
      events.emplace_back(HoldEnded{id, held.account, held.amount, {}, {}});
  }
}

}  // namespace tranche::engine
