// SPDX-License-Identifier: Apache-2.0
#include "engine/storage_charge.hpp"

#include <algorithm>
#include <array>

#include "engine/billing.hpp"
#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/spend.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMib = std::int64_t{1} << 20;
constexpr std::int64_t kGib = std::int64_t{1} << 30;
constexpr std::int64_t kHour = std::chrono::duration_cast<Duration>(std::chrono::hours(1)).count();
constexpr std::int64_t kGibHour = kGib * kHour;  // Bytes times microseconds.
constexpr Duration kCovered = std::chrono::hours(24);

PriceQuery query_of(const State& state, const Volume& volume) {
  const auto backend = volume.shared() ? wire::VolumeBackend::kShared : wire::VolumeBackend::kNode;
  PriceQuery query{.shape = std::string(wire::name_of(backend)), .storage = true};
  for (const Party* at = state.party(volume.owner); at != nullptr; at = state.party(at->parent))
    query.parties.push_back(at->id);
  return query;
}

struct Priced {
  Money amount{};
  std::int64_t remainder = 0;
  std::string rule{};
};

// Splits the time wherever another price begins to hold.
Priced price_of(const State& state, const Volume& volume, Instant from, Instant to, std::int64_t remainder) {
  Priced priced{.remainder = remainder};
  const PriceQuery query = query_of(state, volume);
  for (Instant at = from; at < to;) {
    const auto price = price_at(state.prices, query, at);
    const Instant end = std::min(to, price ? price->until : first_list_after(state.prices, at));
    const Money rate = price ? price->rule.storage_gib_hour.value_or(Money{}) : Money{};
    if (rate > Money{}) {
      const Int128 sum = Int128{rate.micros} * volume.bytes * (end - at).count() + priced.remainder;
      priced.amount.micros += static_cast<std::int64_t>(sum / kGibHour);
      priced.remainder = static_cast<std::int64_t>(sum % kGibHour);
      priced.rule = price->rule.name;
    }
    at = end;
  }
  return priced;
}

AccountId account_of(const State& state, const Volume& volume) {
  return paying_account(state, payer_of(state, volume.owner));
}

bool is_priced(const State& state) {
  return std::any_of(state.prices.begin(), state.prices.end(), [](const PriceList& list) {
    return std::any_of(list.rules.begin(), list.rules.end(), [](const PriceRule& rule) {
      return rule.storage_gib_hour.has_value();
    });
  });
}

// What one decision has taken from an account already, before any of it is folded in.
using Taken = std::map<AccountId, Money>;

void append_charges(
    const State& state, const Volume& volume, Instant now, Taken& taken, std::vector<StorageCharged>& out) {
  if (volume.state != VolumeState::kReady) return;
  const Instant since = std::max(volume.charged_to, volume.created);
  const AccountId account = account_of(state, volume);
  std::int64_t remainder = volume.remainder;
  for (Instant from = std::max(since, now - kMeterMost); from < now;) {
    const Instant to =
        std::min<Instant>(now, std::chrono::floor<std::chrono::days>(from) + std::chrono::days(1));
    const Priced priced = price_of(state, volume, from, to, remainder);
    remainder = priced.remainder;
    if (!priced.rule.empty()) {
      Money owed{};
      if (is_bounded(account.kind())) {
        const std::int64_t left =
            std::max<std::int64_t>(available(state.ledger, account).micros - taken[account].micros, 0);
        owed.micros = std::max<std::int64_t>(priced.amount.micros - left, 0);
      }
      taken[account].micros += priced.amount.micros - owed.micros;
      out.push_back({.volume = volume.id,
                     .party = volume.owner,
                     .account = account,
                     .from = from,
                     .to = to,
                     .rule = priced.rule,
                     .amount = priced.amount,
                     .owed = owed,
                     .remainder = remainder});
    }
    from = to;
  }
}

}  // namespace

std::vector<StorageCharged> storage_charges(const State& state, const Volume& volume, Instant now) {
  std::vector<StorageCharged> charges;
  Taken taken;
  append_charges(state, volume, now, taken, charges);
  return charges;
}

void append_storage_due(const State& state, Instant now, Events& events) {
  if (!is_priced(state)) return;
  std::vector<StorageCharged> charges;
  Taken taken;
  for (const auto& [id, volume] : state.volumes) {
    const Instant midnight = std::chrono::floor<std::chrono::days>(now);
    // A day that has ended is charged in full before anybody is sent its bill.
    const bool due = volume.charged_to + kStorageEvery <= now || volume.charged_to < midnight;
    if (due) append_charges(state, volume, now, taken, charges);
  }
  std::map<PartyId, Money> spent_by;
  for (StorageCharged& charge : charges) {
    Money& more = spent_by[charge.party];
    more.micros += charge.amount.micros;
    append_budget_alerts(state, charge.party, more, now, events);
    events.emplace_back(std::move(charge));
  }
}

Money storage_hourly(const State& state, const Volume& volume, Instant at) {
  if (volume.state != VolumeState::kReady && volume.state != VolumeState::kCopying) return {};
  const auto price = price_at(state.prices, query_of(state, volume), at);
  if (!price || !price->rule.storage_gib_hour) return {};
  return {static_cast<std::int64_t>(Int128{price->rule.storage_gib_hour->micros} * volume.bytes / kGib)};
}

std::optional<Refusal> storage_problem(const State& state, const Volume& volume, Instant at) {
  const Money day = price_of(state, volume, at, at + kCovered, 0).amount;
  if (day <= Money{}) return std::nullopt;
  return Pledges(state).problem(account_of(state, volume), volume.owner, JobId{}, day);
}

// Data is not thrown away because an account ran dry: what it does not cover is owed.
void apply(State& state, const Envelope& envelope, const StorageCharged& event) {
  const auto found = state.volumes.find(event.volume);
  if (found == state.volumes.end()) return;
  Volume& volume = found->second;
  volume.charged_to = event.to;
  volume.remainder = event.remainder;
  volume.charged.micros += event.amount.micros;
  if (event.amount > Money{}) {
    const Currency currency = event.account.currency();
    const AccountId debt = AccountId::make(tenant_of(state, event.party), AccountKind::kReceivable, currency);
    const std::array legs{Leg{event.account, {event.owed.micros - event.amount.micros}},
                          Leg{debt, {-event.owed.micros}},
                          Leg{AccountId::make(kPlatform, AccountKind::kRevenue, currency), event.amount}};
    post(state.ledger, legs);
    add_spent(state, event.party, event.amount, envelope.at);
  }
  CostLine& line = cost_line(
      state,
      {.party = event.party, .payer = event.account.owner(), .volume = event.volume, .at = event.from});
  line.model = "storage";
  line.amount.micros += event.amount.micros;
  line.kept += static_cast<std::int64_t>(Int128{volume.bytes} * (event.to - event.from).count() /
                                         (Int128{kMib} * std::chrono::microseconds::period::den));
}

}  // namespace tranche::engine
