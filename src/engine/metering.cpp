// SPDX-License-Identifier: Apache-2.0
#include "engine/metering.hpp"

#include <algorithm>
#include <array>

#include "engine/decide.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

PriceQuery query_of(const State& state, const MeterPlan& plan) {
  PriceQuery query{.model = plan.model,
                   .shape = plan.shape,
                   .region = plan.region,
                   .isolation = plan.isolation,
                   .priority = plan.priority,
                   .parties = {},
                   .on_demand = plan.on_demand};
  for (const Party* at = state.party(plan.party); at != nullptr; at = state.party(at->parent))
    query.parties.push_back(at->id);
  return query;
}

// What a span costs at most: as if the device were busy all the time.
Money most_for(const State& state, const MeterPlan& plan, Instant from, Duration ahead) {
  const PriceQuery query = query_of(state, plan);
  Money total{};
  for (Instant at = from; at < from + ahead;) {
    const auto price = price_at(state.prices, query, at);
    if (!price) return total;
    const Duration length = std::min(price->until, from + ahead) - at;
    const std::int64_t busy =
        static_cast<std::int64_t>(std::min<Int128>(Int128{plan.milli} * length.count(), INT64_MAX));
    total.micros += charge(price->rule, plan.milli, length, busy, kChargeUnit - 1).amount.micros;
    at += length;
  }
  return total;
}

struct Priced {
  Money amount{};
  std::int64_t remainder = 0;
  std::string rule{};
  std::map<std::string, std::int64_t> unit_remainders{};
};

Money charge_units(const PriceRule& rule, const std::map<std::string, std::int64_t>& counts, Priced& priced) {
  Money total{};
  for (const auto& [unit, count] : counts) {
    const auto price = rule.per_million.find(unit);
    if (price == rule.per_million.end() || count <= 0) continue;
    std::int64_t& rest = priced.unit_remainders[unit];
    const Int128 sum = Int128{price->second.micros} * std::min(count, std::int64_t{1} << 40) + rest;
    total.micros += static_cast<std::int64_t>(sum / kMillion);
    rest = static_cast<std::int64_t>(sum % kMillion);
  }
  return total;
}

// Splits the interval wherever another price begins to hold; use is split by time.
Priced price_interval(const State& state,
                      const Meter& meter,
                      Instant from,
                      Instant to,
                      std::int64_t used,
                      const std::map<std::string, std::int64_t>& units) {
  Priced priced{.remainder = meter.remainder, .rule = {}, .unit_remainders = meter.unit_remainders};
  const PriceQuery query = query_of(state, meter.plan);
  std::int64_t used_before = 0;
  PriceRule last;
  for (Instant at = from; at < to;) {
    const auto price = price_at(state.prices, query, at);
    if (!price) break;
    const Instant end = std::min(price->until, to);
    const auto used_by_end =
        static_cast<std::int64_t>(Int128{used} * (end - from).count() / (to - from).count());
    const Charge part =
        charge(price->rule, meter.plan.milli, end - at, used_by_end - used_before, priced.remainder);
    priced.amount.micros += part.amount.micros;
    priced.remainder = part.remainder;
    used_before = used_by_end;
    last = price->rule;
    at = end;
  }
  priced.rule = last.name;
  priced.amount.micros += charge_units(last, units, priced).micros;
  return priced;
}

}  // namespace

CostLine& cost_line(State& state, PartyId party, JobId job, Instant at) {
  const CostKey key{std::chrono::floor<std::chrono::days>(at), party, job};
  CostLine& line = state.costs[key];
  line.key = key;
  return line;
}

Charge charge(const PriceRule& rule,
              std::int64_t milli,
              Duration allocated,
              std::int64_t used,
              std::int64_t remainder) {
  const Int128 set_aside =
      Int128{std::max<std::int64_t>(milli, 0)} * std::clamp(allocated, Duration{}, kMeterMost).count();
  const Int128 busy = std::min<Int128>(std::max<std::int64_t>(used, 0), set_aside);
  const std::int64_t percent = rule.basis == ChargeBasis::kAllocated ? 0
                               : rule.basis == ChargeBasis::kUsed
                                   ? 100
                                   : std::min<std::int64_t>(rule.used_percent, 100);
  const Int128 parts = set_aside * (100 - percent) + busy * percent;
  const Int128 sum = parts * rule.gpu_hour.micros + remainder;
  return {{static_cast<std::int64_t>(sum / kChargeUnit)}, static_cast<std::int64_t>(sum % kChargeUnit)};
}

Decision decide(const State& state, const Envelope& envelope, const OpenMeter& command) {
  const MeterPlan& plan = command.plan;
  if (state.party(plan.party) == nullptr || plan.lease == LeaseId{}) return refuse(not_found());
  if (state.meters.contains(plan.lease)) return Events{};  // Told twice.
  const PartyId payer = payer_of(state, plan.party);
  const Money held = most_for(state, plan, envelope.at, plan.ahead);
  if (held > Money{}) {
    const AccountId account = credit_account(state, payer);
    if (!can_hold(state.ledger, account, held)) return refuse(not_covered(state, account, held));
    if (auto refusal = spend_problem(state, plan.party, held)) return refuse(*refusal);
  }
  return Events{MeterOpened{plan.party, plan, payer, held}};
}

void apply(State& state, const Envelope& envelope, const MeterOpened& event) {
  hold(state.ledger, credit_account(state, event.payer), event.held);
  reserve_spend(state, event.party, event.held);
  state.meters.insert_or_assign(event.plan.lease,
                                Meter{.lease = event.plan.lease,
                                      .plan = event.plan,
                                      .payer = event.payer,
                                      .metered_to = envelope.at,
                                      .target = event.held,
                                      .held = event.held});
}

Decision decide(const State& state, const Envelope& envelope, const RecordUsage& command) {
  const wire::MeterRecord& record = command.record;
  const auto found = state.meters.find(record.lease);
  if (found == state.meters.end()) return refuse(not_found());
  const Meter& meter = found->second;
  if (record.epoch < meter.epoch || record.sequence <= meter.sequence) return Events{};  // Counted already.
  // No second is charged twice, and none of the future, whatever the clock of the node says.
  const Instant from = std::max(record.from, meter.metered_to);
  const Instant to = std::max(from, std::min({record.to, envelope.at, from + kMeterMost}));
  const std::int64_t used = from < to ? std::max<std::int64_t>(record.device_nanoseconds, 0) : 0;
  Priced priced = price_interval(state, meter, from, to, used, record.units);
  const AccountId account = credit_account(state, meter.payer);
  const std::int64_t more = std::max<std::int64_t>(available(state.ledger, account).micros, 0);
  const bool covered = priced.amount.micros <= meter.held.micros + more;
  if (!covered) priced.amount = {meter.held.micros + more};
  // The hold is filled up again, so that the next interval is covered before it begins.
  const std::int64_t left = std::max<std::int64_t>(meter.held.micros - priced.amount.micros, 0);
  const std::int64_t beyond = std::max<std::int64_t>(priced.amount.micros - meter.held.micros, 0);
  std::int64_t refill = std::min(meter.target.micros - left, more - beyond);
  const Money extra{refill + left + priced.amount.micros - meter.held.micros};
  const bool allowed = extra <= Money{} || !spend_problem(state, meter.plan.party, extra);
  if (!allowed) refill = 0;
  const Money held{left + std::max<std::int64_t>(refill, 0)};
  Events events{
      Charged{.party = meter.plan.party,
              .lease = record.lease,
              .job = meter.plan.job,
              .device = record.device,
              .epoch = record.epoch,
              .sequence = record.sequence,
              .from = from,
              .to = to,
              .allocated = meter.plan.milli * (to - from).count(),
              .used = used,
              .vram_byte_seconds = record.vram_byte_seconds,
              .units = record.units,
              .rule = priced.rule,
              .amount = priced.amount,
              .remainder = covered ? priced.remainder : 0,
              .unit_remainders = priced.unit_remainders,
              .held = held,
              .exhausted = !covered || (held < meter.target && held.micros < priced.amount.micros)}};
  append_budget_alerts(state, meter.plan.party, priced.amount, envelope.at, events);
  return events;
}

void apply(State& state, const Envelope& envelope, const Charged& event) {
  const auto found = state.meters.find(event.lease);
  if (found == state.meters.end()) return;
  Meter& meter = found->second;
  const AccountId account = credit_account(state, meter.payer);
  release(state.ledger, account, meter.held);
  if (event.amount > Money{}) {
    const std::array legs{
        Leg{account, {-event.amount.micros}},
        Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), event.amount}};
    post(state.ledger, legs);
  }
  hold(state.ledger, account, event.held);
  reserve_spend(state, event.party, {event.held.micros - meter.held.micros});
  add_spent(state, event.party, event.amount, envelope.at);
  meter.epoch = event.epoch;
  meter.sequence = event.sequence;
  meter.metered_to = event.to;
  meter.remainder = event.remainder;
  meter.unit_remainders = event.unit_remainders;
  meter.held = event.held;
  meter.charged.micros += event.amount.micros;
  meter.exhausted = event.exhausted;
  CostLine& line = cost_line(state, event.party, event.job, event.from);
  line.model = meter.plan.model;
  line.workload = meter.plan.workload;
  line.amount.micros += event.amount.micros;
  line.allocated += event.allocated / 1000;
  line.used += event.used / 1000;
  for (const auto& [unit, count] : event.units) line.units[unit] += count;
}

Decision decide(const State& state, const Envelope& envelope, const CloseMeter& command) {
  const auto found = state.meters.find(command.lease);
  if (found == state.meters.end()) return Events{};  // Told twice.
  const Meter& meter = found->second;
  Money credited{};
  if (command.fault != Instant{} && command.fault < meter.metered_to) {
    Meter fresh = meter;
    fresh.remainder = 0;
    const Priced since = price_interval(state, fresh, command.fault, meter.metered_to, 0, {});
    credited = std::min(since.amount, meter.charged);
  }
  static_cast<void>(envelope);
  return Events{MeterClosed{meter.plan.party, command.lease, meter.held, credited}};
}

void apply(State& state, const Envelope& envelope, const MeterClosed& event) {
  const auto found = state.meters.find(event.lease);
  if (found == state.meters.end()) return;
  const Meter& meter = found->second;
  const AccountId account = credit_account(state, meter.payer);
  release(state.ledger, account, event.released);
  reserve_spend(state, event.party, {-event.released.micros});
  if (event.credited > Money{}) {
    const std::array legs{
        Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), {-event.credited.micros}},
        Leg{account, event.credited}};
    post(state.ledger, legs);
    add_spent(state, event.party, {-event.credited.micros}, envelope.at);
    cost_line(state, event.party, meter.plan.job, envelope.at).credited.micros += event.credited.micros;
  }
  state.meters.erase(found);
}

}  // namespace tranche::engine
