// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who pays, and whether he may: the account that stands for a party, and the spend limits of the tree above
// it.
#include <optional>

#include "engine/event.hpp"
#include "engine/ledger.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

[[nodiscard]] Currency currency_of(const State&);
// The nearest party at or above that has an account of its own; else the tenant, or the platform.
[[nodiscard]] PartyId payer_of(const State&, PartyId party);
[[nodiscard]] AccountId credit_account(const State&, PartyId payer);

// The first spend limit at or above the party that `amount` more would break.
[[nodiscard]] std::optional<Refusal> spend_problem(const State&, PartyId party, Money amount);
[[nodiscard]] Refusal not_covered(const State&, AccountId, Money amount);

// The tree's books of what is set aside and what was spent in the running period: a day, week or month on
// the calendar of the party that has the limit.
void reserve_spend(State&, PartyId party, Money amount);  // Negative: gives back.
void add_spent(State&, PartyId party, Money amount, Instant at);
[[nodiscard]] Money spent(const State&, PartyId party, Instant at);

// Alerts that `amount` more would raise at or above the party: at 50, 80 and 100 % of a spend limit.
void append_budget_alerts(const State&, PartyId party, Money amount, Instant at, Events&);
void append_expired_holds(const State&, Instant at, Events&);
// GPU time that was used up in the running period.
[[nodiscard]] std::int64_t gpu_seconds_used(const State&, PartyId party, Instant at);
void add_gpu_seconds(State&, PartyId party, std::int64_t seconds, Instant at);
void turn_periods(State&, Instant at);  // Those that are over give way to the ones that run.
// A quota counts another kind of period from now on: what was spent in the one that runs is counted anew.
void recount_spent(State&, PartyId party, Instant at);

// First instant of the month, in UTC, that an instant is in.
[[nodiscard]] Instant month_of(Instant);

}  // namespace tranche::engine
