// SPDX-License-Identifier: Apache-2.0
#include "engine/guarantee.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/slots.hpp"
#include "engine/start_window.hpp"

namespace tranche::engine {
namespace {

constexpr int kJobsLooked =
    256;  // Of each kind that waits; by then a guarantee is filled, or nobody may start.

Instant day_of(Instant at) {
  return std::chrono::floor<std::chrono::days>(at);
}

bool is_promised(const ServiceLevel& level) {
  return level.terms.guarantee_permille > 0;
}

std::int64_t guarantee_of(const State& state, PartyId party) {
  const Party* found = state.party(party);
  return found == nullptr ? 0 : found->quota.gpu_milli.guaranteed.value_or(0);
}

// Whether only capacity keeps it from starting.
bool waits_for_capacity(const State& state, const Job& job, Instant now) {
  if (job.not_before > now || waits_for_window(state, job) || job.stop_requested) return false;
  return !job.ask.window || open_span(*job.ask.window, now).from <= now;
}

// What waits of a tenant, as far as it fits into what is left of its guarantee.
std::int64_t waiting_milli(const State& state, PartyId tenant, std::int64_t room, Instant now) {
  std::int64_t milli = 0;
  for (const auto& [key, jobs] : state.index.capacity->waiting()) {
    if (key.tenant != tenant || key.kind == kNoKind) continue;
    int looked = 0;
    for (const JobId id : jobs) {
      if (milli >= room || ++looked > kJobsLooked) break;
      const Job& job = state.jobs.at(id);
      if (milli + job.ask.gpu_milli() > room || !waits_for_capacity(state, job, now)) continue;
      milli += job.ask.gpu_milli();
    }
  }
  for (const LeaseId id : state.index.capacity->parked()) {
    const Lease& lease = state.leases.at(id);
    if (lease.tenant == tenant && milli + lease.gpu_milli() <= room) milli += lease.gpu_milli();
  }
  return milli;
}

struct Standing {
  std::int64_t wanted = 0;
  std::int64_t missing = 0;
};

Standing standing_of(const State& state, const ServiceLevel& level, Instant now) {
  const PartyId tenant = tenant_of(state, level.key.party);
  const std::int64_t guarantee = guarantee_of(state, tenant);
  const std::int64_t has = std::min(state.index.capacity->running_milli(tenant), guarantee);
  const std::int64_t missing = waiting_milli(state, tenant, guarantee - has, now);
  return {has + missing, missing};
}

bool differs(const ServiceLevel& level, const Standing& standing) {
  return standing.wanted != level.account.wanted_milli || standing.missing != level.account.missing_milli;
}

// Milli-devices times microseconds, in whole seconds; the rest is carried.
void add(std::int64_t& sum, std::int64_t& carried, std::int64_t milli, Duration length) {
  const Int128 all = Int128{milli} * length.count() + carried;
  sum += static_cast<std::int64_t>(all / 1'000'000);
  carried = static_cast<std::int64_t>(all % 1'000'000);
}

void count_until(GuaranteeAccount& account, Instant at) {
  if (account.since != Instant{} && at > account.since) {
    add(account.promised, account.carried_promised, account.wanted_milli, at - account.since);
    add(account.missed, account.carried_missed, account.missing_milli, at - account.since);
  }
  account.since = std::max(account.since, at);
}

// The days that are over, each judged for itself.
void append_days(const State& state, const ServiceLevel& level, Instant now, Events& events) {
  GuaranteeAccount account = level.account;
  while (account.day != Instant{} && account.day < day_of(now)) {
    const Instant end = account.day + std::chrono::days(1);
    count_until(account, end);
    LevelJudged judged{.key = level.key,
                       .owner = level.key.party,
                       .delivery = {.promised = account.promised, .missed = account.missed},
                       .day = account.day};
    const Int128 most = Int128{account.promised} * (1000 - level.terms.guarantee_permille) / 1000;
    if (account.missed > most) {
      const Ask device{.instances = 1, .milli_each = 1000};
      const Money hourly =
          job_price(state, level.key.party, device, Admission::kWithinQuota, account.day).hourly;
      judged.credit = {static_cast<std::int64_t>(Int128{hourly.micros} * account.missed *
                                                 level.terms.credit_percent / (Int128{1000} * 3600 * 100))};
    }
    events.push_back(std::move(judged));
    account.promised = account.missed = 0;
    account.day = end;
    // Long silences are not judged day by day: nothing happened in them.
    if (account.wanted_milli == 0) break;
  }
}

std::int64_t milli_in_service(const State& state) {
  std::int64_t milli = 0;
  for (const auto& [id, device] : state.devices) {
    const Node& node = state.nodes.at(device.node);
    if (!node.simulated && is_in_service(device.state) && takes_work(node)) milli += policy::kDeviceMilli;
  }
  return milli;
}

}  // namespace

bool guarantees_due(const State& state, Instant now) {
  const bool moved = state.index.capacity->has_moved();
  for (const auto& [key, level] : state.work.levels) {
    if (!is_promised(level)) continue;
    if (level.account.day != Instant{} && level.account.day < day_of(now)) return true;
    if (moved && differs(level, standing_of(state, level, now))) return true;
  }
  state.index.capacity->settled();
  return false;
}

Events note_guarantees(const State& state, const Envelope& envelope) {
  Events events;
  for (const auto& [key, level] : state.work.levels) {
    if (!is_promised(level)) continue;
    append_days(state, level, envelope.at, events);
    const Standing now_is = standing_of(state, level, envelope.at);
    if (differs(level, now_is))
      events.push_back(GuaranteeNoted{key, key.party, now_is.wanted, now_is.missing});
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const GuaranteeNoted& event) {
  const auto found = state.work.levels.find(event.key);
  if (found == state.work.levels.end()) return;
  GuaranteeAccount& account = found->second.account;
  count_until(account, envelope.at);
  if (account.day == Instant{}) account.day = day_of(envelope.at);
  account.wanted_milli = event.wanted_milli;
  account.missing_milli = event.missing_milli;
}

void close_day(ServiceLevel& level, Instant day) {
  GuaranteeAccount& account = level.account;
  const Instant end = day + std::chrono::days(1);
  account.promised = account.missed = 0;
  account.carried_promised = account.carried_missed = 0;
  account.since = std::max(account.since, end);
  account.day = account.wanted_milli == 0 ? Instant{} : end;
}

Delivery guarantee_of_today(const State& state, const ServiceLevel& level) {
  GuaranteeAccount account = level.account;
  if (account.day != day_of(state.now)) return {};
  count_until(account, state.now);
  return {.promised = account.promised, .missed = account.missed};
}

void add_short_guarantees(const State& state, const ServiceLevel& level, std::vector<LevelRisk>& risks) {
  if (!is_promised(level)) return;
  GuaranteeAccount account = level.account;
  count_until(account, state.now);
  if (account.missing_milli > 0) {
    const Int128 most = Int128{account.promised} * (1000 - level.terms.guarantee_permille) / 1000;
    const auto left = static_cast<std::int64_t>((most - account.missed) / account.missing_milli);
    risks.push_back({.left = std::chrono::seconds(left), .missing_milli = account.missing_milli});
  }
  // Ahead of any demand: what is guaranteed to all is more than what is in service.
  const PartyId tenant = tenant_of(state, level.key.party);
  std::int64_t guaranteed = 0;
  for (const auto& [id, party] : state.parties)
    if (id.kind() == PartyKind::kTenant) guaranteed += party.quota.gpu_milli.guaranteed.value_or(0);
  const std::int64_t lacking = std::min(guaranteed - milli_in_service(state), guarantee_of(state, tenant));
  if (lacking > 0) risks.push_back({.missing_milli = lacking, .out_of_service = true});
}

}  // namespace tranche::engine
