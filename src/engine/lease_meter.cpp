// SPDX-License-Identifier: Apache-2.0
#include "engine/lease_meter.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "engine/attempt.hpp"
#include "engine/spend.hpp"
#include "engine/unit_price.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kUnbounded = INT64_MAX / 4;

std::int64_t milli_of(const std::vector<Slice>& slices) {
  std::int64_t sum = 0;
  for (const Slice& slice : slices) sum += slice.milli;
  return sum;
}

// All records of a lease in one report as one: a lease on four devices is charged once for its time.
wire::MeterRecord merged(const wire::MeterRecord& a, const wire::MeterRecord& b) {
  wire::MeterRecord out = a;
  out.sequence = std::max(a.sequence, b.sequence);
  out.from = std::min(a.from, b.from);
  out.to = std::max(a.to, b.to);
  out.device_nanoseconds += b.device_nanoseconds;
  out.vram_byte_seconds += b.vram_byte_seconds;
  for (const auto& [unit, count] : b.units) out.units[unit] += count;
  return out;
}

// Whose limit a job is under: a chunk's is that of the whole.
JobId limited_as(const State& state, JobId id) {
  const auto group = state.index.work->group_of.find(id);
  return group == state.index.work->group_of.end() ? id : group->second;
}

Refusal own_limit_problem(const State& state, JobId id, Money left, Money amount, bool beside_others) {
  const Money limit = state.jobs.at(id).ask.spend;
  const std::string job = text(limited_as(state, id));
  return {.reason = Reason::kBudget,
          .rule = "job_spend",
          .where = job,
          .message = "the spend limit of " + job + " is " + text(limit) + ", and leaves " + text(left) +
                     ": too little for " + text(amount),
          .fix = beside_others ? "it starts when the chunks that run need less of it"
                               : "submit what is left of it with a higher --spend",
          .limit = limit.micros,
          .used = limit.micros - left.micros,
          .asked = amount.micros};
}

// Of a chunk under a limit for all of them, as soon as one of its like is done. Whoever outlasts it has more
// set aside as he goes on.
std::optional<Duration> probable_length(const State& state, const Job& job) {
  if (job.ask.spend == Money{}) return std::nullopt;
  const auto group = state.work.groups.find(limited_as(state, job.id));
  const Chunk* chunk = group == state.work.groups.end() ? nullptr : group->second.chunk_of(job.id);
  const auto each = chunk == nullptr ? std::nullopt : patience_with_a_unit(group->second);
  if (!each) return std::nullopt;
  return *each * wire::count_of(chunk->left) + kSpendGrace * 2;
}

void append_spend_stop(const State& state, const Job& job, const std::string& message, Events& events) {
  for (const LeaseId id : job.leases) {
    const Lease& lease = state.leases.at(id);
    if (lease.live() && !lease.revoked)
      events.emplace_back(revocation(state, lease, EndReason::kSpendLimit, message, JobId{}));
  }
}

}  // namespace

Money Pledges::pledged_by(PartyId party) const {
  const auto found = parties_.find(party);
  return found == parties_.end() ? Money{} : found->second;
}

Money own_limit_left(const JobGroup& group) {
  const std::int64_t taken = group.charged.value_or(Money{}).micros + group.held.micros;
  return {std::max<std::int64_t>(group.ask.spend.micros - taken, 0)};
}

std::optional<Money> own_limit_left(const State& state, const Job& job) {
  if (job.ask.spend == Money{}) return std::nullopt;
  const auto group = state.work.groups.find(limited_as(state, job.id));
  if (group != state.work.groups.end()) return own_limit_left(group->second);
  std::int64_t left = job.ask.spend.micros - job.charged.micros;
  for (const LeaseId lease : job.leases) {
    const auto meter = state.meters.find(lease);
    if (meter != state.meters.end()) left -= meter->second.held.micros;
  }
  return Money{std::max<std::int64_t>(left, 0)};
}

Money Pledges::job_room(JobId id) const {
  const Job* job = state_->job(id);
  const auto left = job == nullptr ? std::nullopt : own_limit_left(*state_, *job);
  if (!left) return {kUnbounded};
  const auto taken = jobs_.find(limited_as(*state_, id));
  return taken == jobs_.end() ? *left : Money{std::max<std::int64_t>(left->micros - taken->second.micros, 0)};
}

bool Pledges::is_beside_others(JobId id) const {
  const auto found = state_->work.groups.find(limited_as(*state_, id));
  if (found == state_->work.groups.end()) return false;
  const auto taken = jobs_.find(found->first);
  return found->second.held > Money{} || (taken != jobs_.end() && taken->second > Money{});
}

Money Pledges::room(AccountId account, PartyId party, JobId id) const {
  std::int64_t room = job_room(id).micros;
  if (is_bounded(state_->ledger, account)) {
    const auto taken = accounts_.find(account);
    const std::int64_t pledged = taken == accounts_.end() ? 0 : taken->second.micros;
    room = std::min(room, available(state_->ledger, account).micros - pledged);
  }
  const Job* job = state_->job(id);
  const Int128 pot = job == nullptr ? 0 : Int128{job->hold.micros};  // Reserved for this very job.
  for (const Party* at = state_->party(party); at != nullptr; at = state_->party(at->parent)) {
    if (!at->quota.spend) continue;
    const Int128 left = Int128{at->quota.spend->micros} - at->usage.spend_reserved.micros -
                        spent(*state_, at->id, state_->now).micros - pledged_by(at->id).micros + pot;
    room = static_cast<std::int64_t>(std::min<Int128>(room, left));
  }
  return {std::max<std::int64_t>(room, 0)};
}

std::optional<Refusal> Pledges::problem(AccountId account, PartyId party, JobId id, Money amount) const {
  if (amount <= room(account, party, id)) return std::nullopt;
  if (const Money left = job_room(id); left < amount)
    return own_limit_problem(*state_, id, left, amount, is_beside_others(id));
  if (auto refusal = spend_problem(*state_, party, amount)) return refusal;
  return not_covered(*state_, account, amount);
}

void Pledges::take(AccountId account, PartyId party, JobId job, Money amount) {
  accounts_[account].micros += amount.micros;
  jobs_[limited_as(*state_, job)].micros += amount.micros;
  for (const Party* at = state_->party(party); at != nullptr; at = state_->party(at->parent))
    parties_[at->id].micros += amount.micros;
}

AccountId paying_account(const State& state, PartyId payer) {
  const AccountId credit = credit_account(state, payer);
  if (find_account(state.ledger, credit) != nullptr) return credit;
  return AccountId::make(payer, AccountKind::kReceivable, credit.currency());
}

PriceQuery price_query(const State& state, const MeterPlan& plan) {
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

std::optional<PriceInForce> price_in_force(const State& state, const PriceQuery& query, Instant at) {
  auto price = price_at(state.prices, query, at);
  const bool named = price && price->rule.on_demand.value_or(false);
  if (!query.on_demand || named || state.settings.on_demand_gpu_hour == Money{}) return price;
  PriceInForce rate{.until = price ? price->until : Instant::max()};
  rate.rule.name = "on demand";
  rate.rule.gpu_hour = state.settings.on_demand_gpu_hour;
  return rate;
}

Money most_for(const State& state, const MeterPlan& plan, Instant from, Duration ahead) {
  if (plan.contract != ContractId{}) return {};
  const PriceQuery query = price_query(state, plan);
  Money total{};
  // Rounded up once for the whole span, as its charges will be: prices that change at midnight add nothing.
  std::int64_t remainder = kChargeUnit - 1;
  for (Instant at = from; at < from + ahead;) {
    const auto price = price_in_force(state, query, at);
    if (!price) {  // Nothing costs anything yet.
      at = std::min(first_list_after(state.prices, at), from + ahead);
      continue;
    }
    const Duration length = std::min(price->until, from + ahead) - at;
    const auto busy =
        static_cast<std::int64_t>(std::min<Int128>(Int128{plan.milli} * length.count(), INT64_MAX));
    const Charge part = charge(price->rule, charged_milli(price->rule, plan), length, busy, remainder);
    total.micros += part.amount.micros;
    remainder = part.remainder;
    at += length;
  }
  return total;
}

Duration ahead_of(const State& state, const MeterPlan& plan, Instant at) {
  const Job* job = state.job(plan.job);
  if (job == nullptr) return plan.ahead;
  const Duration needed = std::min(plan.ahead, probable_length(state, *job).value_or(plan.ahead));
  if (job->ask.time == Duration{}) return needed;
  const Lease* lease = state.lease(plan.lease);
  const Instant began = lease == nullptr || lease->started == Instant{} ? at : lease->started;
  return std::clamp(began + job->ask.time - at, Duration{}, needed);
}

MeterPlan meter_plan(const State& state, const Job& job, const LeaseGranted& granted) {
  MeterPlan plan{.lease = granted.id,
                 .job = job.id,
                 .party = job.owner,
                 .shape = job.ask.profile,
                 .isolation = granted.isolation,
                 .workload = job.ask.kind,
                 .priority = job.ask.priority,
                 .on_demand = job.admission == Admission::kOnDemand,
                 .milli = milli_of(granted.slices),
                 .ahead = state.settings.hold_ahead};
  if (!granted.slices.empty()) plan.model = state.devices.at(granted.slices.front().device).facts.model;
  for (const Slice& slice : granted.slices) {
    const std::int64_t whole = std::max<std::int64_t>(state.devices.at(slice.device).facts.vram.count, 1);
    plan.memory_bytes += slice.vram;
    plan.memory_milli += std::min<std::int64_t>((slice.vram * 1000 + whole - 1) / whole, 1000);
  }
  if (const Node* node = state.node(granted.node)) plan.region = node->site;
  if (const Booking* booking = state.booking(granted.booking)) plan.contract = booking->contract;
  return plan;
}

Result<MeterOpened, Refusal> meter_for(
    const State& state, const MeterPlan& plan, Instant at, const Pledges& pledges, bool may_begin_short) {
  const PartyId payer = payer_of(state, plan.party);
  const AccountId account = paying_account(state, payer);
  const Duration ahead = ahead_of(state, plan, at);
  Money held{most_for(state, plan, at, ahead).micros + most_for_units(state, plan, at, ahead).micros};
  // A job with a spend limit of its own is stopped by it in time, so it may start with less than an hour's.
  const Job* job = plan.contract == ContractId{} ? state.job(plan.job) : nullptr;
  if (job != nullptr) {
    if (auto refusal = price_problem(state, plan, job->ask.price_per_hour, at)) return refuse(*refusal);
  }
  if (job != nullptr && job->ask.spend > Money{} && may_begin_short) {
    const Money room = pledges.room(account, plan.party, plan.job);
    const Money least = most_for(state, plan, at, std::min(ahead, kSpendGrace * 2));
    if (room < held && room >= least && room.micros <= job->ask.spend.micros) held = room;
  }
  if (held > Money{}) {
    if (auto refusal = pledges.problem(account, plan.party, plan.job, held)) return refuse(*refusal);
  }
  return MeterOpened{plan.party, plan, payer, held, account};
}

bool append_meters(
    const State& state, const Job& job, Instant at, std::size_t from, Pledges& pledges, Events& events) {
  Pledges taken = pledges;
  // What others hold of the same limit comes back: better to wait than to be stopped in the middle.
  const bool may_begin_short = !pledges.is_beside_others(job.id);
  const std::size_t end = events.size();
  for (std::size_t i = from; i < end; ++i) {
    const auto granted = std::get<LeaseGranted>(events[i]);
    if (granted.slices.empty()) continue;
    auto opened = meter_for(state, meter_plan(state, job, granted), at, taken, may_begin_short);
    if (!opened) return false;
    taken.take(opened->account, opened->party, job.id, opened->held);
    events.push_back(std::move(*opened));
  }
  pledges = std::move(taken);
  return true;
}

void append_charges(const State& state,
                    Instant now,
                    const std::vector<wire::MeterRecord>& records,
                    Events& events) {
  std::map<LeaseId, wire::MeterRecord> by_lease;
  for (const wire::MeterRecord& record : records) {
    const auto meter = state.meters.find(record.lease);
    if (meter == state.meters.end() || record.sequence <= meter->second.sequence) continue;
    const auto [at, fresh] = by_lease.emplace(record.lease, record);
    if (!fresh) at->second = merged(at->second, record);
  }
  Pledges pledges(state);
  for (const auto& [id, record] : by_lease) {
    const std::size_t before = events.size();
    append_charge(state, now, record, pledges, events);
    if (events.size() == before) continue;
    const auto& charged = std::get<Charged>(events[before]);
    const Job* job = state.job(charged.job);
    if (!charged.exhausted || job == nullptr) continue;
    append_spend_stop(state,
                      *job,
                      pledges.job_room(job->id) == Money{}
                          ? "the job's own spend limit is used up"
                          : "nothing covers more of it: the budget or credit of " +
                                path_of(state, state.meters.at(id).payer) + " is used up",
                      events);
  }
}

void append_meter_end(
    const State& state, Instant now, const Lease& lease, const wire::LeaseReport& report, Events& events) {
  const auto found = state.meters.find(lease.id);
  if (found == state.meters.end()) return;
  const Meter& meter = found->second;
  const bool fault = is_platform_fault(report.reason);
  const Instant end = std::min(report.at, now);
  const bool ran = lease.started != Instant{} && lease.parking != Parking::kParked;
  if (fault || !ran || end <= meter.metered_to) {
    const Instant since = lease.fault != Instant{} ? lease.fault : end;
    events.emplace_back(meter_closed(state, meter, fault ? since : Instant{}));
    return;
  }
  // What no record covers, such as the moments after the last one.
  Pledges pledges(state);
  append_charge(state,
                now,
                {.lease = lease.id,
                 .epoch = meter.epoch,
                 .sequence = meter.sequence + 1,
                 .device = lease.slices.empty() ? DeviceId{} : lease.slices.front().device,
                 .from = meter.metered_to,
                 .to = end},
                pledges,
                events);
  Meter last = meter;
  for (const Event& event : events) {
    const auto* charged = std::get_if<Charged>(&event);
    if (charged != nullptr && charged->lease == lease.id) last.held = charged->held;
  }
  events.emplace_back(meter_closed(state, last, Instant{}));
}

Money draw_admission_hold(State& state, JobId id, Money amount) {
  const auto job = state.jobs.find(id);
  if (job == state.jobs.end() || amount <= Money{}) return {};
  const Money drawn = std::min(job->second.hold, amount);
  job->second.hold.micros -= drawn.micros;
  return drawn;
}

}  // namespace tranche::engine
