// SPDX-License-Identifier: Apache-2.0
#include "engine/spend.hpp"

#include <array>

#include "base/text.hpp"
#include "engine/decide.hpp"
#include "engine/local_calendar.hpp"

namespace tranche::engine {
namespace {

// Nothing: nothing was spent in the period that runs.
const Spent* running_book(const State& state, PartyId party, Instant at) {
  const auto found = state.spent.find(party);
  return found != state.spent.end() && at < found->second.until ? &found->second : nullptr;
}

// A period that is over gives way to the one that runs.
Spent& book_at(State& state, const Party& party, Instant at) {
  Spent& book = state.spent[party.id];
  if (at < book.until) return book;
  const CalendarSpan span = span_around(state, party.id, party.quota.period, at);
  return book = {.party = party.id, .period = span.from, .until = span.to};
}

}  // namespace

Instant month_of(Instant at) {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(at)};
  return std::chrono::sys_days{day.year() / day.month() / 1};
}

Currency currency_of(const State& state) {
  return Currency::of(state.settings.currency).value_or(Currency{});
}

AccountId credit_account(const State& state, PartyId payer) {
  return AccountId::make(payer, AccountKind::kCredit, currency_of(state));
}

PartyId payer_of(const State& state, PartyId party) {
  const Currency currency = currency_of(state);
  PartyId tenant = kPlatform;
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent)) {
    if (find_account(state.ledger, AccountId::make(at->id, AccountKind::kCredit, currency)) != nullptr)
      return at->id;
    if (at->id.kind() == PartyKind::kTenant) tenant = at->id;
  }
  return tenant;
}

Money spent(const State& state, PartyId party, Instant at) {
  const Spent* book = running_book(state, party, at);
  return book == nullptr ? Money{} : book->amount;
}

std::int64_t gpu_seconds_used(const State& state, PartyId party, Instant at) {
  const Spent* book = running_book(state, party, at);
  return book == nullptr ? 0 : book->gpu_seconds;
}

std::optional<Refusal> spend_problem(const State& state, PartyId party, Money amount) {
  for (const Party* at = state.party(party); at != nullptr; at = state.party(at->parent)) {
    if (!at->quota.spend) continue;
    const Int128 used = Int128{at->usage.spend_reserved.micros} + spent(state, at->id, state.now).micros;
    if (used + amount.micros <= at->quota.spend->micros) continue;
    const std::string where = path_of(state, at->id);
    const auto left = static_cast<std::int64_t>(
        used >= at->quota.spend->micros ? Int128{0} : Int128{at->quota.spend->micros} - used);
    return Refusal{.reason = Reason::kBudget,
                   .rule = "spend",
                   .where = where,
                   .message = where + " may spend " + text(*at->quota.spend) + " a " +
                              std::string(wire::name_of(at->quota.period)) + ", and this could cost " +
                              text(amount),
                   .fix = left > 0 ? "ask for what costs at most " + text(Money{left})
                                   : "wait for the next " + std::string(wire::name_of(at->quota.period)) +
                                         ", or ask the administrator of " + where,
                   .limit = at->quota.spend->micros,
                   .used = at->quota.spend->micros - left,
                   .asked = amount.micros};
  }
  return std::nullopt;
}

Refusal not_covered(const State& state, AccountId account, Money amount) {
  const Money left = available(state.ledger, account);
  const std::string where = path_of(state, account.owner());
  return {.reason = Reason::kBudget,
          .rule = "credit",
          .where = where,
          .message = "the credit of " + where + " does not cover " + text(amount),
          .fix = left > Money{} ? "ask for what costs at most " + text(left) + ", or pay in"
                                : "pay in first: tranche account top-up",
          .limit = left.micros,
          .used = 0,
          .asked = amount.micros};
}

void reserve_spend(State& state, PartyId party, Money amount) {
  for (auto at = state.parties.find(party); at != state.parties.end();
       at = state.parties.find(at->second.parent)) {
    at->second.usage.spend_reserved.micros += amount.micros;
  }
}

void add_spent(State& state, PartyId party, Money amount, Instant at) {
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent))
    book_at(state, *up, at).amount.micros += amount.micros;
}

void add_gpu_seconds(State& state, PartyId party, std::int64_t seconds, Instant at) {
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent))
    book_at(state, *up, at).gpu_seconds += seconds;
}

void turn_periods(State& state, Instant at) {
  for (auto& [id, book] : state.spent)
    if (const Party* party = state.party(id); party != nullptr) static_cast<void>(book_at(state, *party, at));
}

void recount_spent(State& state, PartyId party, Instant at) {
  const auto found = state.spent.find(party);
  const Party* who = state.party(party);
  if (found == state.spent.end() || who == nullptr) return;
  const CalendarSpan span = span_around(state, party, who->quota.period, at);
  if (found->second.period == span.from && found->second.until == span.to) return;
  Spent book{.party = party, .period = span.from, .until = span.to};
  for (auto line = state.costs.lower_bound(CostKey{.day = std::chrono::floor<std::chrono::days>(span.from)});
       line != state.costs.end();
       ++line) {
    if (!is_at_or_below(state, line->first.party, party) || line->first.source == CostSource::kFee) continue;
    book.amount.micros += line->second.amount.micros - line->second.credited.micros;
    // A purchase is no use; what ran in it was.
    if (!line->first.of_exchange())
      book.gpu_seconds += (line->second.allocated + line->second.bought_time) / 1'000'000;
  }
  found->second = book;
}

void append_budget_alerts(const State& state, PartyId party, Money amount, Instant at, Events& events) {
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent)) {
    if (!up->quota.spend || up->quota.spend->micros <= 0) continue;
    const Spent* book = running_book(state, up->id, at);
    const Instant period =
        book != nullptr ? book->period : span_around(state, up->id, up->quota.period, at).from;
    const Int128 now = (book != nullptr ? Int128{book->amount.micros} : Int128{0}) + amount.micros;
    const std::uint32_t told = book != nullptr ? book->alerted_percent : 0;
    std::uint32_t reached = 0;
    for (const std::uint32_t percent : std::array<std::uint32_t, 3>{50, 80, 100}) {
      if (now * 100 >= Int128{up->quota.spend->micros} * percent) reached = percent;
    }
    if (reached > told) {
      events.emplace_back(
          BudgetAlerted{up->id, period, reached, {static_cast<std::int64_t>(now)}, *up->quota.spend});
    }
  }
}

void apply(State& state, const Envelope& envelope, const BudgetAlerted& event) {
  const Party* party = state.party(event.party);
  if (party != nullptr) book_at(state, *party, envelope.at).alerted_percent = event.percent;
}

}  // namespace tranche::engine
