// SPDX-License-Identifier: Apache-2.0
#include "engine/platform.hpp"

#include <algorithm>
#include <set>

#include "engine/billing.hpp"
#include "engine/decide.hpp"
#include "engine/device_life.hpp"
#include "engine/market_fill.hpp"
#include "engine/spend.hpp"
#include "engine/storage_charge.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kTickLeast = std::chrono::hours(1);  // The journal says at least so often what time it is.

bool is_due(const State& state, const Remembered& request, Instant at) {
  return request.at + state.settings.remember_requests < at;
}

bool is_due(const State& state, const Job& job, Instant at) {
  if (!is_over(job.state) || job.ended + state.settings.keep_ended_jobs >= at) return false;
  return std::none_of(job.leases.begin(), job.leases.end(), [&](LeaseId id) {
    return state.leases.at(id).holds_slices();  // Never wiped: its slices must not be forgotten.
  });
}

// Whether a budget is fresh that nobody has spent of since.
bool any_period_over(const State& state, Instant at) {
  return std::any_of(state.spent.begin(), state.spent.end(), [&](const auto& entry) {
    return entry.second.until <= at && (entry.second.amount != Money{} || entry.second.gpu_seconds != 0);
  });
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Found& command) {
  if (!state.parties.empty()) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "founded",
                          .message = "this platform has been founded already",
                          .fix = "use its operator's token"});
  }
  const PartyId user = PartyId::make(PartyKind::kUser, state.next_party);
  return Events{Founded{user},
                PartyCreated{user, kPlatform, command.operator_name, ""},
                RoleGranted{kPlatform, user, Role::kPlatformOwner},
                TokenIssued{{state.next_token}, user, "first start", Scope::kAdmin, command.token_hash, {}}};
}

void apply(State& state, const Envelope& envelope, const Founded&) {
  state.add_party(
      {.id = kPlatform, .parent = {}, .name = "platform", .created = envelope.at, .version = state.sequence});
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetSku& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const Sku& sku = command.sku;
  if (sku.name.empty() || sku.name.size() > 63 || sku.gpu_milli <= 0 || sku.gpu_milli > 1000 ||
      sku.vram_bytes < 0) {
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "sku",
                          .message = "a SKU has a name, 1 to 1000 gpu_milli, and VRAM that is not negative",
                          .fix = "for example: tranche sku set small --gpu 0.25 --vram 20GB"});
  }
  const auto found = state.skus.find(sku.name);
  return Events{SkuSet{found == state.skus.end() ? Sku{} : found->second, sku}};
}

void apply(State& state, const Envelope&, const SkuSet& event) {
  state.skus.insert_or_assign(event.after.name, event.after);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const ChangeSettings& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  const Settings& settings = command.settings;
  const bool sane = settings.on_demand_gpu_hour >= Money{} && settings.reference_vram_bytes > 0 &&
                    settings.remember_requests >= std::chrono::hours(24) &&
                    settings.keep_ended_jobs >= std::chrono::hours(1) && settings.currency.size() == 3 &&
                    settings.hold_ahead >= std::chrono::seconds(1) &&
                    settings.hold_ahead <= std::chrono::hours(24 * 31) && settings.prepare_percent <= 200 &&
                    settings.minimum_run >= Duration{} && settings.minimum_run <= std::chrono::hours(24);
  if (!sane) {
    return refuse(
        Refusal{.reason = Reason::kInvalid,
                .rule = "settings",
                .message = "a setting is out of bounds",
                .fix = "prices are not negative; requests are remembered for a day at least; the currency "
                       "has three letters; a second to a month is set aside ahead; at most 200 % of what is "
                       "foreseen is prepared for; what was stopped is left alone for a day at most"});
  }
  for (const auto& [unit, weight] : settings.fair_units)
    if (!is_unit_name(unit) || weight < Duration{} || weight > std::chrono::hours(24 * 31))
      return refuse(Refusal{.reason = Reason::kInvalid,
                            .rule = "fair_units",
                            .message = "'" + unit + "' is no unit, or counts as no time of a device",
                            .fix = "for example: tranche settings set --fair frames=30s; units are frames, "
                                   "seconds, steps, requests, tokens, tokens_in, tokens_out and units"});
  if (settings.currency != state.settings.currency && !state.ledger.accounts.empty()) {
    return refuse(Refusal{.reason = Reason::kConflict,
                          .rule = "currency",
                          .message = "there are accounts in " + state.settings.currency + " already",
                          .fix = "keep the currency"});
  }
  return Events{SettingsChanged{state.settings, settings}};
}

void apply(State& state, const Envelope&, const SettingsChanged& event) {
  state.settings = event.after;
}

Decision decide(const State&, const Envelope& envelope, const NoteDenial& command) {
  return Events{Denied{command.action, envelope.actor, command.refusal}};
}

void apply(State&, const Envelope&, const Denied&) {}

// The counts are in the event for people; what is forgotten follows from the time of the record alone. A
// tick at which nothing is due leaves no trace, but for one an hour.
Decision decide(const State& state, const Envelope& envelope, const Tick&) {
  Ticked ticked;
  for (const auto& [key, request] : state.remembered)
    ticked.requests_forgotten += is_due(state, request, envelope.at);
  for (const auto& [id, job] : state.jobs) ticked.jobs_forgotten += is_due(state, job, envelope.at);
  Events events{ticked};
  append_expired_holds(state, envelope.at, events);
  append_storage_due(state, envelope.at, events);
  // What was used until now is charged before anybody is sent his bill for it.
  if (events.size() == 1) append_invoices_due(state, envelope.at, events);
  append_health_due(state, envelope.at, events);
  const std::size_t before = events.size();
  // Who bought something and does not get it goes first, however busy the books are.
  append_cut_short(state, envelope.at, events);
  if (events.size() == before) append_delivery(state, envelope.at, events);
  if (events.size() == before) append_substitution(state, envelope.at, events);
  append_market_due(state, envelope.at, events.size() == before, events);
  const bool due = events.size() > 1 || ticked.requests_forgotten + ticked.jobs_forgotten > 0 ||
                   any_period_over(state, envelope.at) || envelope.at - state.now >= kTickLeast;
  return due ? events : Events{};
}

void apply(State& state, const Envelope& envelope, const Ticked&) {
  state.index.capacity->changed();  // A new month may have begun: budgets are fresh.
  turn_periods(state, envelope.at);
  forget_past(state.market, envelope.at);
  std::erase_if(state.device_days,
                [&](const auto& entry) { return entry.first.day + kDeviceDaysKept < envelope.at; });
  std::erase_if(state.remembered,
                [&](const auto& entry) { return is_due(state, entry.second, envelope.at); });
  std::set<PartyId> touched;
  std::erase_if(state.jobs, [&](const auto& entry) {
    const bool due = is_due(state, entry.second, envelope.at);
    if (due) touched.insert(entry.second.owner);
    return due;
  });
  std::erase_if(state.leases, [&](const auto& entry) { return !state.jobs.contains(entry.second.job); });
  forget_work(state);
  for (const PartyId owner : touched) {
    auto& jobs = state.index.jobs_by_owner[owner];
    std::erase_if(jobs, [&](JobId id) { return !state.jobs.contains(id); });
  }
}

}  // namespace tranche::engine
