// SPDX-License-Identifier: Apache-2.0
#include "engine/metering.hpp"

#include <algorithm>
#include <array>

#include "engine/billing.hpp"
#include "engine/contract_costs.hpp"
#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/reconcile.hpp"
#include "engine/spend.hpp"
#include "engine/unit_price.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kRoundingMost = 100;  // Micro-units; nothing starts for so little.

struct Priced {
  Money amount{};
  Money by_allocation{};  // Of the amount.
  std::int64_t remainder = 0;
  std::string rule{};
  std::map<std::string, std::int64_t> unit_remainders{};
};

Money charge_units(const PriceRule& rule, const std::map<std::string, std::int64_t>& counts, Priced& priced) {
  Money total{};
  for (const auto& [unit, count] : counts) {
    if (count <= 0 || rule.per_million.empty()) continue;
    const Money price = per_million(rule, unit);
    if (price == Money{}) continue;
    std::int64_t& rest = priced.unit_remainders[unit];
    const Int128 sum = Int128{price.micros} * std::min(count, std::int64_t{1} << 40) + rest;
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
  if (meter.plan.contract != ContractId{}) return priced;  // Paid for already.
  const PriceQuery query = price_query(state, meter.plan);
  std::int64_t used_before = 0;
  PriceRule last;
  for (Instant at = from; at < to;) {
    const auto price = price_in_force(state, query, at);
    if (!price) {  // Nothing costs anything yet.
      at = std::min(first_list_after(state.prices, at), to);
      continue;
    }
    const Instant end = std::min(price->until, to);
    const auto used_by_end =
        static_cast<std::int64_t>(Int128{used} * (end - from).count() / (to - from).count());
    const std::int64_t milli = charged_milli(price->rule, meter.plan);
    const Charge part = charge(price->rule, milli, end - at, used_by_end - used_before, priced.remainder);
    priced.amount.micros += part.amount.micros;
    priced.by_allocation.micros += charge(price->rule, milli, end - at, 0, 0).amount.micros;
    priced.remainder = part.remainder;
    used_before = used_by_end;
    last = price->rule;
    at = end;
  }
  priced.rule = last.name;
  priced.amount.micros += charge_units(last, units, priced).micros;
  return priced;
}

// The most that an interval used of its slice, of compute or of memory; too short ones tell nothing.
std::uint32_t used_milli(const MeterPlan& plan, const Charged& event) {
  const std::int64_t seconds = std::chrono::floor<std::chrono::seconds>(event.to - event.from).count();
  if (seconds < 1 || event.allocated <= 0) return 0;
  const Int128 busy = Int128{event.used} * 1000 / event.allocated;
  const Int128 memory = plan.memory_bytes <= 0
                            ? Int128{0}
                            : Int128{event.vram_byte_seconds} * 1000 / (Int128{plan.memory_bytes} * seconds);
  return static_cast<std::uint32_t>(std::min<Int128>(std::max(busy, memory), 1000));
}

// Whether another chunk waits for money of the limit that it is under with this one.
bool is_waited_for(const State& state, JobId chunk) {
  const auto parent = state.index.work->group_of.find(chunk);
  if (parent == state.index.work->group_of.end()) return false;
  const JobGroup& group = state.work.groups.at(parent->second);
  return group.ask.spend > Money{} &&
         std::any_of(group.chunks.begin(), group.chunks.end(), [&](const Chunk& other) {
           return state.jobs.at(other.job).state == JobState::kPending;
         });
}

}  // namespace

std::int64_t charged_milli(const PriceRule& rule, const MeterPlan& plan) {
  const bool known = plan.memory_milli > 0;  // Meters of before did not keep it.
  if (rule.dimension == wire::ChargeDimension::kCompute || !known) return plan.milli;
  return rule.dimension == wire::ChargeDimension::kMemory ? plan.memory_milli
                                                          : std::max(plan.milli, plan.memory_milli);
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
  const auto opened = meter_for(state, plan, envelope.at, Pledges(state));
  if (!opened) return refuse(opened.error());
  return Events{*opened};
}

void apply(State& state, const Envelope& envelope, const MeterOpened& event) {
  const AccountId account = event.account == AccountId{} ? credit_account(state, event.payer) : event.account;
  hold(state.ledger, account, event.held);
  const Money drawn = draw_admission_hold(state, event.plan.job, event.held);
  reserve_spend(state, event.party, {event.held.micros - drawn.micros});
  note_group_money(state, event.plan.job, Money{}, event.held);
  state.meters.insert_or_assign(event.plan.lease,
                                Meter{.lease = event.plan.lease,
                                      .plan = event.plan,
                                      .payer = event.payer,
                                      .metered_to = envelope.at,
                                      .target = event.held,
                                      .held = event.held,
                                      .account = account});
}

Decision decide(const State& state, const Envelope& envelope, const RecordUsage& command) {
  if (!state.meters.contains(command.record.lease)) return refuse(not_found());
  Events events;
  Pledges pledges(state);
  append_charge(state, envelope.at, command.record, pledges, events);
  return events;
}

void append_charge(
    const State& state, Instant now, const wire::MeterRecord& record, Pledges& pledges, Events& events) {
  const auto found = state.meters.find(record.lease);
  if (found == state.meters.end()) return;
  const Meter& meter = found->second;
  if (record.epoch < meter.epoch || record.sequence <= meter.sequence) return;  // Counted already.
  // No second is charged twice, and none of the future, whatever the clock of the node says.
  const Instant from = std::max(record.from, meter.metered_to);
  const Instant to = std::max(from, std::min({record.to, now, from + kMeterMost}));
  const std::int64_t used = from < to ? std::max<std::int64_t>(record.device_nanoseconds, 0) : 0;
  const UnitCounts units = unsettled_units(state, record);
  Priced priced = price_interval(state, meter, from, to, used, units);
  Charge bought{};
  if (meter.plan.contract != ContractId{}) {
    bought = part_of_contract(state, meter, from, to);
    priced.rule = "bought on the exchange";
    priced.remainder = bought.remainder;
  }
  const Money more = pledges.room(meter.account, meter.plan.party, meter.plan.job);
  const bool covered = priced.amount.micros <= meter.held.micros + more.micros;
  if (!covered) priced.amount = {meter.held.micros + more.micros};
  // The hold is filled up again, so that the next interval is covered before it begins.
  const std::int64_t left = std::max<std::int64_t>(meter.held.micros - priced.amount.micros, 0);
  const std::int64_t beyond = std::max<std::int64_t>(priced.amount.micros - meter.held.micros, 0);
  const Duration ahead = ahead_of(state, meter.plan, to);
  const Money target{most_for(state, meter.plan, to, ahead).micros +
                     most_for_units(state, meter.plan, to, ahead).micros};
  const Money held{left + std::clamp(target.micros - left, -left, more.micros - beyond)};
  const bool short_of = held < target && held < most_for(state, meter.plan, to, (to - from) + kSpendGrace);
  pledges.take(meter.account,
               meter.plan.party,
               meter.plan.job,
               {held.micros + priced.amount.micros - meter.held.micros});
  events.emplace_back(Charged{.party = meter.plan.party,
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
                              .units = units,
                              .rule = priced.rule,
                              .amount = priced.amount,
                              .remainder = covered ? priced.remainder : 0,
                              .unit_remainders = priced.unit_remainders,
                              .held = held,
                              .exhausted = !covered || short_of,
                              .by_allocation = std::min(priced.by_allocation, priced.amount),
                              .bought = bought.amount});
  append_budget_alerts(state, meter.plan.party, priced.amount, now, events);
}

void apply(State& state, const Envelope& envelope, const Charged& event) {
  const auto found = state.meters.find(event.lease);
  if (found == state.meters.end()) return;
  Meter& meter = found->second;
  const AccountId account = meter.account;
  release(state.ledger, account, meter.held);
  if (event.amount > Money{}) {
    const std::array legs{
        Leg{account, {-event.amount.micros}},
        Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), event.amount}};
    post(state.ledger, legs);
  }
  hold(state.ledger, account, event.held);
  const std::int64_t more = event.held.micros - meter.held.micros;
  const std::int64_t freed = -(more + event.amount.micros);
  if (freed > kRoundingMost && is_waited_for(state, event.job)) state.index.capacity->changed();
  const Money drawn = draw_admission_hold(state, event.job, {more + event.amount.micros});
  reserve_spend(state, event.party, {more - drawn.micros});
  const auto job = state.jobs.find(event.job);
  if (job != state.jobs.end()) job->second.charged.micros += event.amount.micros;
  note_group_money(state, event.job, event.amount, {more});
  add_spent(state, event.party, event.amount, envelope.at);
  meter.epoch = event.epoch;
  meter.sequence = event.sequence;
  meter.metered_to = event.to;
  meter.remainder = event.remainder;
  meter.unit_remainders = event.unit_remainders;
  meter.held = event.held;
  meter.charged.micros += event.amount.micros;
  meter.exhausted = event.exhausted;
  CostLine& line =
      cost_line(state, {.party = event.party, .payer = meter.payer, .job = event.job, .at = event.from});
  line.model = meter.plan.model;
  line.by_allocation.micros += event.by_allocation.micros;
  line.peak_milli = std::max(line.peak_milli, used_milli(meter.plan, event));
  line.workload = meter.plan.workload;
  line.amount.micros += event.amount.micros;
  if (meter.plan.contract == ContractId{})
    line.allocated += event.allocated / 1000;
  else
    move_bought(state, meter, event, line);
  line.used += event.used / 1000;
  note_busy(state, event.lease, event.from, event.to, event.used);
  for (const auto& [unit, count] : event.units) line.units[unit] += count;
  if (job != state.jobs.end() && line.labels.empty()) line.labels = job->second.ask.labels;
  settle_units(state, event.job, event.units);
  charge_service(state, event.job, event.amount);
  note_unit_charge(state,
                   event.party,
                   charged_units(state, event.job, event.units),
                   {event.amount.micros + event.bought.micros},
                   event.from);
}

Decision decide(const State& state, const Envelope&, const CloseMeter& command) {
  const auto found = state.meters.find(command.lease);
  if (found == state.meters.end()) return Events{};  // Told twice.
  return Events{meter_closed(state, found->second, command.fault)};
}

MeterClosed meter_closed(const State& state, const Meter& meter, Instant fault) {
  Money credited{};
  if (fault != Instant{} && fault < meter.metered_to) {
    Meter fresh = meter;
    fresh.remainder = 0;
    const Priced since = price_interval(state, fresh, fault, meter.metered_to, 0, {});
    credited = std::min(since.amount, meter.charged);
  }
  return {meter.plan.party, meter.lease, meter.held, credited};
}

void apply(State& state, const Envelope& envelope, const MeterClosed& event) {
  const auto found = state.meters.find(event.lease);
  if (found == state.meters.end()) return;
  const Meter& meter = found->second;
  const AccountId account = meter.account;
  release(state.ledger, account, event.released);
  reserve_spend(state, event.party, {-event.released.micros});
  note_group_money(state, meter.plan.job, {-event.credited.micros}, {-event.released.micros});
  if (event.credited > Money{}) {
    const std::array legs{
        Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), {-event.credited.micros}},
        Leg{account, event.credited}};
    post(state.ledger, legs);
    add_spent(state, event.party, {-event.credited.micros}, envelope.at);
    CostLine& line = cost_line(
        state, {.party = event.party, .payer = meter.payer, .job = meter.plan.job, .at = envelope.at});
    line.credited.micros += event.credited.micros;
    line.model = meter.plan.model;
    line.workload = meter.plan.workload;
    if (const auto job = state.jobs.find(meter.plan.job); job != state.jobs.end()) {
      job->second.charged.micros -= event.credited.micros;
      job->second.credited.micros += event.credited.micros;
    }
  }
  state.meters.erase(found);
  state.index.capacity->changed();  // Whoever waited for money may have it now.
}

}  // namespace tranche::engine
