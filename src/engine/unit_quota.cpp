// SPDX-License-Identifier: Apache-2.0
#include "engine/unit_quota.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "engine/attempt.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

std::string limit_text(const State& state, const UnitLimit& limit) {
  const Party& party = *state.party(limit.party);
  return path_of(state, limit.party) + " may do " + std::to_string(limit.limit) + " " + limit.unit + " a " +
         std::string(wire::name_of(party.quota.period));
}

Refusal used_up(const State& state, const UnitLimit& limit, std::int64_t asked) {
  const std::int64_t left = std::max<std::int64_t>(limit.left(), 0);
  std::string message = limit_text(state, limit) + ": " + std::to_string(limit.done) + " are done";
  if (limit.promised > 0) message += ", " + std::to_string(limit.promised) + " promised to jobs";
  std::string fix =
      "wait until " + text(limit.until) + ", or ask the administrator of " + path_of(state, limit.party);
  if (left > 0) fix = "ask for at most " + std::to_string(left) + ", " + fix;
  return {.reason = Reason::kQuota,
          .rule = "units." + limit.unit,
          .where = path_of(state, limit.party),
          .message = std::move(message),
          .fix = std::move(fix),
          .limit = limit.limit,
          .used = limit.done + limit.promised,
          .asked = asked};
}

// What a job of this kind tells of itself as it goes.
std::string_view told_by(wire::WorkloadKind kind) {
  switch (kind) {
    case wire::WorkloadKind::kFinetune:
    case wire::WorkloadKind::kTraining:
      return "steps";
    case wire::WorkloadKind::kRender:
      return "frames";
    case wire::WorkloadKind::kVideo:
      return "seconds";
    case wire::WorkloadKind::kBatch:
    case wire::WorkloadKind::kInference:
    case wire::WorkloadKind::kInteractive:
      return "";
  }
  return "";
}

}  // namespace

std::int64_t promised_units(const State& state, PartyId party, std::string_view name) {
  std::int64_t sum = 0;
  if (name == "requests" || name.starts_with("tokens")) return sum;  // Nobody knows those beforehand.
  for (const auto& [id, group] : state.work.groups) {
    const Job* parent = state.job(id);
    if (parent == nullptr || is_over(parent->state) || !is_counted_as(units_name(group.counted_in()), name) ||
        !is_at_or_below(state, group.owner, party))
      continue;
    const std::int64_t given_up = group.milliseconds.empty() ? group.given_up : 0;
    sum += group.counted_total() - group.counted_done() - given_up;
  }
  return sum;
}

std::vector<UnitLimit> unit_limits_of(const State& state, const Party& party, Instant at) {
  std::vector<UnitLimit> limits;
  for (const auto& [unit, limit] : party.quota.units)
    limits.push_back({.party = party.id,
                      .unit = unit,
                      .limit = limit,
                      .done = units_done(state, party.id, unit, period_start(party.quota.period, at)),
                      .promised = promised_units(state, party.id, unit),
                      .until = period_end(party.quota.period, at)});
  return limits;
}

std::vector<UnitLimit> unit_limits(const State& state, PartyId party, Instant at) {
  std::vector<UnitLimit> limits;
  for (const Party* up = state.party(party); up != nullptr; up = state.party(up->parent))
    for (UnitLimit& limit : unit_limits_of(state, *up, at)) limits.push_back(std::move(limit));
  return limits;
}

std::optional<Refusal> unit_quota_problem(const State& state,
                                          PartyId owner,
                                          const SubmitJob& job,
                                          Instant at) {
  std::string unit(told_by(job.ask.kind));
  std::int64_t count = 1;
  if (job.unit != wire::WorkUnit::kNone) {
    const JobGroup group{.unit = job.unit, .range = job.units, .milliseconds = job.milliseconds};
    unit = units_name(group.counted_in());
    count = group.counted_total();
  }
  for (const UnitLimit& limit : unit_limits(state, owner, at))
    if (is_counted_as(unit, limit.unit) && count > limit.left()) return used_up(state, limit, count);
  return std::nullopt;
}

std::string used_up_text(const State& state, const UnitLimit& limit) {
  return limit_text(state, limit) + ", and they are done; from " + text(limit.until) + " on there are more";
}

void append_unit_stops(const State& state,
                       const Job& job,
                       std::string_view unit,
                       std::int64_t more,
                       Instant at,
                       Events& events) {
  for (const UnitLimit& limit : unit_limits(state, job.owner, at)) {
    if (!is_counted_as(unit, limit.unit) || limit.done + more < limit.limit) continue;
    for (const LeaseId id : job.leases) {
      const Lease& lease = state.leases.at(id);
      if (lease.live() && !lease.revoked)
        events.emplace_back(
            revocation(state, lease, EndReason::kUnitQuota, used_up_text(state, limit), JobId{}));
    }
    return;
  }
}

}  // namespace tranche::engine
