// SPDX-License-Identifier: Apache-2.0
// What a job would cost, and whether that is covered, before it has a lease.
#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "engine/lease_meter.hpp"
#include "engine/price.hpp"
#include "engine/spend.hpp"
#include "engine/unit_price.hpp"

namespace tranche::engine {
namespace {

// Every kind of place it could land on, as a plan of the whole job.
std::vector<MeterPlan> possible_plans(
    const State& state, PartyId owner, JobId job, const Ask& ask, Admission admission) {
  const bool whole = ask.isolation != Isolation::kSoft && ask.profile.empty();
  const MeterPlan base{.job = job,
                       .party = owner,
                       .model = ask.model,
                       .shape = ask.profile,
                       .isolation = ask.isolation,
                       .workload = ask.kind,
                       .priority = ask.priority,
                       .on_demand = admission == Admission::kOnDemand,
                       .milli = whole ? std::int64_t{ask.instances} * 1000 : ask.gpu_milli(),
                       .ahead = state.settings.hold_ahead};
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<MeterPlan> plans;
  for (const DeviceKind& device : state.index.capacity->device_kinds(state)) {
    if (device.simulated != ask.simulated || !is_wanted(ask, device)) continue;
    if (!seen.emplace(device.model, device.site).second) continue;
    plans.push_back(base);
    plans.back().model = device.model;
    plans.back().region = device.site;
    const std::int64_t memory = std::max<std::int64_t>(device.vram, 1);
    const std::int64_t share = (std::min(ask.vram_each, memory) * 1000 + memory - 1) / memory;
    plans.back().memory_milli = std::int64_t{ask.instances} * (whole ? 1000 : share);
  }
  if (plans.empty()) {
    plans.push_back(base);
    plans.back().memory_milli = base.milli;  // Until a device is connected nobody knows its memory.
  }
  return plans;
}

Duration first_hold(const MeterPlan& plan, const Ask& ask) {
  return ask.time == Duration{} ? plan.ahead : std::min(plan.ahead, ask.time);
}

// A job with a spend limit of its own may begin with as little, because that ends it in time.
Duration shortest_hold(const MeterPlan& plan, const Ask& ask) {
  return std::min(first_hold(plan, ask), kSpendGrace * 2);
}

// Whoever bought capacity that such a job fits into has paid for it, whatever else he can pay.
bool is_paid_for(const State& state, PartyId owner, const Ask& ask, Instant at) {
  return std::any_of(state.bookings.begin(), state.bookings.end(), [&](const auto& entry) {
    const Booking& claim = entry.second;
    return claim.contract != ContractId{} && claim.state == BookingState::kBooked &&
           is_at_or_below(state, owner, claim.owner) && claim.ask.profile == ask.profile &&
           claim.ask.gpu_milli() >= ask.gpu_milli() &&
           (ask.model.empty() || is_model(claim.ask.model, ask.model)) &&
           std::any_of(claim.windows.begin(), claim.windows.end(), [&](const BookedWindow& window) {
             return window.to > at;
           });
  });
}

Money times(Money amount, std::int64_t count) {
  return {static_cast<std::int64_t>(
      std::min(Int128{amount.micros} * std::max<std::int64_t>(count, 1), Int128{INT64_MAX / 4}))};
}

// Units and what they cost; those whose number is known are part of the most.
void add_units(const std::map<std::string, Money>& prices, const WorkAhead& work, wire::JobPrice& out) {
  for (const auto& [unit, price] : prices) {
    wire::UnitPrice one{.unit = unit, .per_million = price};
    if (unit == work.unit) {
      one.count = work.count;
      one.most = price_of_units(price, work.count);
      one.in_most = true;
      if (out.most) out.most->micros += one.most.micros;
    }
    out.units.push_back(std::move(one));
  }
}

std::string time_limit_text(const Ask& ask, const WorkAhead& work) {
  std::string out = "time limit " + text(ask.time);
  if (!work.unit.empty()) {
    out += " for each chunk; " + std::to_string(work.pieces) + " of them if each is for one piece of work";
  }
  if (work.tries > 1) out += ", " + std::to_string(work.tries) + " tries";
  return out;
}

}  // namespace

WorkAhead work_ahead(const SubmitJob& job) {
  if (job.unit == WorkUnit::kNone) return {.tries = 1 + std::int64_t{job.ask.retries}};
  WorkAhead work{.unit = units_name(job.milliseconds.empty() ? job.unit : WorkUnit::kSecond),
                 .count = job.units.count(),
                 .pieces = job.units.count(),
                 .tries = std::max<std::int64_t>(job.unit_tries, 1)};
  if (job.milliseconds.empty()) return work;
  std::int64_t milliseconds = 0;
  for (const std::int64_t one : job.milliseconds) milliseconds += one;
  work.count = (milliseconds + 999) / 1000;
  return work;
}

bool is_own_limit_used_up(const State& state, const JobGroup& group, Instant at) {
  const Money left = own_limit_left(group);
  const bool within_quota =
      group.chunks.empty() || std::any_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& chunk) {
        return state.jobs.at(chunk.job).admission == Admission::kWithinQuota;
      });
  const auto plans = possible_plans(
      state, group.owner, JobId{}, group.ask, within_quota ? Admission::kWithinQuota : Admission::kOnDemand);
  return std::all_of(plans.begin(), plans.end(), [&](const MeterPlan& plan) {
    return left < most_for(state, plan, at, shortest_hold(plan, group.ask));
  });
}

wire::JobPrice job_price(const State& state,
                         PartyId owner,
                         const Ask& ask,
                         Admission admission,
                         Instant at,
                         const WorkAhead& work) {
  wire::JobPrice out{.currency = state.settings.currency};
  if (ask.instances == 0) {
    out.most = Money{};
    out.most_because = "jobs without a device are free";
    return out;
  }
  Money longest{};
  std::map<std::string, Money> units;
  for (const MeterPlan& plan : possible_plans(state, owner, JobId{}, ask, admission)) {
    const Money hourly = most_for(state, plan, at, std::chrono::hours(1));
    longest = std::max(longest, most_for(state, plan, at, ask.time));
    for (const auto& [unit, price] : unit_prices(state, plan, at, ask.time))
      units[unit] = std::max(units[unit], price);
    if (hourly < out.hourly || (hourly == out.hourly && !out.rule.empty())) continue;
    const auto price = price_in_force(state, price_query(state, plan), at);
    out.rule = price ? price->rule.name : "";
    out.hourly = hourly;
    out.set_aside = most_for(state, plan, at, first_hold(plan, ask));
  }
  if (state.prices.empty() && out.hourly == Money{}) {
    out.most = Money{};
    out.most_because = "there is no price list";
    return out;
  }
  if (ask.time > Duration{}) {
    out.most = times(longest, work.pieces * work.tries);
    out.most_because = time_limit_text(ask, work);
  }
  add_units(units, work, out);
  const bool has_open_end = std::any_of(
      out.units.begin(), out.units.end(), [](const wire::UnitPrice& one) { return !one.in_most; });
  if (ask.spend > Money{} && (!out.most || has_open_end || ask.spend < *out.most)) {
    out.most = ask.spend;
    out.most_because = "spend limit of the job";
    for (wire::UnitPrice& one : out.units) one.in_most = true;
  }
  add_tax(state, owner, at, out);
  return out;
}

void add_tax(const State& state, PartyId party, Instant at, wire::JobPrice& price) {
  const TaxTerms terms = tax_terms(state, payer_of(state, party), at);
  if (terms.from == PartyId{} || terms.rate_ppm == 0) return;
  price.tax_name = terms.name;
  price.tax_ppm = terms.rate_ppm;
  if (price.most)
    price.most_with_tax = Money{price.most->micros + tax_of(*price.most, terms.rate_ppm).micros};
}

StartPrices::StartPrices(const State& state, PartyId owner, const Ask& ask, Admission admission)
    : state_(&state), time_(ask.time) {
  if (ask.instances > 0) plans_ = possible_plans(state, owner, JobId{}, ask, admission);
}

Money StartPrices::most(Instant start) const {
  Money dearest{};
  for (const MeterPlan& plan : plans_) dearest = std::max(dearest, most_for(*state_, plan, start, time_));
  return dearest;
}

std::vector<Instant> StartPrices::changes(Instant from, Instant to, std::size_t count_max) const {
  std::set<Instant> changes;
  for (const MeterPlan& plan : plans_) {
    const PriceQuery query = price_query(*state_, plan);
    auto price = price_in_force(*state_, query, from);
    for (std::size_t seen = 0; price && price->until <= to && seen < count_max; ++seen) {
      changes.insert(price->until);
      price = price_in_force(*state_, query, price->until);
    }
  }
  return {changes.begin(), changes.end()};
}

std::optional<Refusal> price_problem(const State& state,
                                     const MeterPlan& plan,
                                     Money most_per_hour,
                                     Instant at) {
  if (most_per_hour == Money{}) return std::nullopt;
  const auto price = price_in_force(state, price_query(state, plan), at);
  if (!price || price->rule.gpu_hour <= most_per_hour) return std::nullopt;
  return Refusal{.reason = Reason::kBudget,
                 .rule = "price_per_hour",
                 .message = "an hour of a " + plan.model + " costs " + text(price->rule.gpu_hour) +
                            " now, and the job pays " + text(most_per_hour) + " at most",
                 .fix = "raise its limit, name a cheaper device, or take cheaper hours: --cheapest",
                 .limit = most_per_hour.micros,
                 .asked = price->rule.gpu_hour.micros};
}

std::optional<Refusal> funding_problem(const State& state,
                                       PartyId owner,
                                       JobId job,
                                       const Ask& ask,
                                       Admission admission,
                                       Money over_quota,
                                       Instant at) {
  const bool priced = !state.prices.empty() || admission == Admission::kOnDemand;
  if (ask.instances == 0 || !priced) return std::nullopt;
  const PartyId payer = payer_of(state, owner);
  const AccountId account = paying_account(state, payer);
  const Pledges pledges(state);
  std::optional<Refusal> first;
  for (const MeterPlan& plan : possible_plans(state, owner, job, ask, admission)) {
    Money needed = most_for(state, plan, at, std::min(first_hold(plan, ask), ahead_of(state, plan, at)));
    if (ask.spend > Money{} && !pledges.is_beside_others(job)) {
      const Money left = state.job(job) == nullptr ? ask.spend : pledges.job_room(job);
      needed = std::min(needed, std::max(left, most_for(state, plan, at, shortest_hold(plan, ask))));
    }
    // What admission would set aside for it is its own, and was checked against the tree there.
    const Money tree{std::max<std::int64_t>(needed.micros - over_quota.micros, 0)};
    auto problem = pledges.problem(account, owner, job, tree);
    if (!problem && is_bounded(state.ledger, account) && needed > available(state.ledger, account))
      problem = not_covered(state, account, needed);
    if (!problem) problem = price_problem(state, plan, ask.price_per_hour, at);
    if (!problem) return std::nullopt;
    if (!first) first = std::move(problem);
  }
  if (first && is_paid_for(state, owner, ask, at)) return std::nullopt;
  return first;
}

}  // namespace tranche::engine
