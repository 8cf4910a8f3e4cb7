// SPDX-License-Identifier: Apache-2.0
#include "engine/spend.hpp"

#include <array>

#include "base/text.hpp"
#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

std::string money_text(Money amount) {
  std::string out;
  append_text(out, amount);
  return out;
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
  const auto found = state.spent.find(party);
  if (found == state.spent.end() || found->second.period != month_of(at)) return {};
  return found->second.amount;
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
                   .message = where + " may spend " + money_text(*at->quota.spend) +
                              " a period, and this could cost " + money_text(amount),
                   .fix = left > 0 ? "ask for what costs at most " + money_text({left})
                                   : "wait for the next period, or ask the administrator of " + where,
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
          .message = "the credit of " + where + " does not cover " + money_text(amount),
          .fix = left > Money{} ? "ask for what costs at most " + money_text(left) + ", or pay in"
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
  const Instant period = month_of(at);
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent)) {
    Spent& book = state.spent[up->id];
    if (book.period != period) book = {.party = up->id, .period = period};
    book.amount.micros += amount.micros;
  }
}

void append_budget_alerts(const State& state, PartyId party, Money amount, Instant at, Events& events) {
  const Instant period = month_of(at);
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent)) {
    if (!up->quota.spend || up->quota.spend->micros <= 0) continue;
    const auto found = state.spent.find(up->id);
    const bool running = found != state.spent.end() && found->second.period == period;
    const Int128 now = (running ? Int128{found->second.amount.micros} : Int128{0}) + amount.micros;
    const std::uint32_t told = running ? found->second.alerted_percent : 0;
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

void apply(State& state, const Envelope&, const BudgetAlerted& event) {
  Spent& book = state.spent[event.party];
  if (book.period != event.period) book = {.party = event.party, .period = event.period};
  book.alerted_percent = event.percent;
}

}  // namespace tranche::engine
