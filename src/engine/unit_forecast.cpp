// SPDX-License-Identifier: Apache-2.0
#include "engine/unit_forecast.hpp"

#include <algorithm>

#include "policy/demand_forecast.hpp"

namespace tranche::engine {
namespace {

constexpr std::chrono::days kLately{31};

struct Pace {
  std::int64_t timed = 0, busy_microseconds = 0;
  std::int64_t charged_for = 0;
  Money charged{};
  std::string by{};
  [[nodiscard]] bool is_known() const { return timed > 0 || charged_for > 0; }
};

// The newest job of this name says most: the same film, the same model.
Pace pace_by_name(const State& state, PartyId tenant, const std::string& name, WorkUnit unit) {
  Pace pace;
  if (name.empty()) return pace;
  for (auto at = state.work.groups.rbegin(); at != state.work.groups.rend(); ++at) {
    const JobGroup& group = at->second;
    const Job* job = state.job(group.id);
    if (job == nullptr || job->name != name || group.counted_in() != unit || group.counted_done() == 0 ||
        tenant_of(state, group.owner) != tenant)
      continue;
    pace.timed = group.counted_done();
    pace.busy_microseconds = group.busy_microseconds;
    pace.charged = group.charged.value_or(Money{});
    pace.charged_for = pace.charged > Money{} ? pace.timed : 0;
    pace.by = text(group.id) + " of the same name";
    return pace;
  }
  return pace;
}

Pace pace_of_tenant(const State& state, PartyId tenant, const std::string& unit, Instant at) {
  const UnitTally tally = tally_of(state, tenant, unit, at - kLately);
  return {.timed = tally.timed,
          .busy_microseconds = tally.busy_microseconds,
          .charged_for = tally.charged_for,
          .charged = tally.charged,
          .by = "what " + path_of(state, tenant) + " did in the last month"};
}

Duration scaled(std::int64_t microseconds, std::int64_t count, std::int64_t of) {
  if (of <= 0) return {};
  constexpr Int128 kMost = std::int64_t{1} << 60;
  return Duration(static_cast<std::int64_t>(std::min(Int128{microseconds} * count / of, kMost)));
}

}  // namespace

std::optional<wire::UnitEstimate> unit_estimate(const State& state,
                                                PartyId owner,
                                                const std::string& job_name,
                                                WorkUnit unit,
                                                std::int64_t count,
                                                Instant at) {
  const PartyId tenant = tenant_of(state, owner);
  Pace pace = pace_by_name(state, tenant, job_name, unit);
  if (!pace.is_known()) pace = pace_of_tenant(state, tenant, units_name(unit), at);
  if (!pace.is_known()) return std::nullopt;
  wire::UnitEstimate estimate{.unit = units_name(unit),
                              .count = count,
                              .each = scaled(pace.busy_microseconds, 1, pace.timed),
                              .one_by_one = scaled(pace.busy_microseconds, count, pace.timed),
                              .seen = std::max(pace.timed, pace.charged_for),
                              .by = pace.by};
  if (pace.charged_for > 0)
    estimate.cost = Money{static_cast<std::int64_t>(
        std::min(Int128{pace.charged.micros} * count / pace.charged_for, Int128{INT64_MAX / 4}))};
  return estimate;
}

std::optional<Instant> latest_start(const State& state, const Job& job) {
  if (!job.ask.deadline) return std::nullopt;
  const Instant by_limit = *job.ask.deadline - job.ask.time;
  const auto parent = state.index.work->group_of.find(job.id);
  if (parent == state.index.work->group_of.end()) return by_limit;
  const JobGroup& group = state.work.groups.at(parent->second);
  if (group.done == 0) return by_limit;
  std::int64_t running = 0;
  for (const Chunk& chunk : group.chunks)
    running += state.jobs.at(chunk.job).state == JobState::kRunning ? 1 : 0;
  const std::int64_t left = group.range.count() - group.done - group.given_up;
  const Duration all = scaled(group.busy_microseconds, left, group.done);
  return std::min(by_limit, *job.ask.deadline - all / std::max<std::int64_t>(running, 1));
}

UnitCounts expected_units(const State& state, PartyId tenant, Instant hour) {
  const auto seconds_of = [](Instant at) {
    return std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  };
  std::map<std::string, policy::DemandForecast> forecasts;
  const auto& days = state.work.unit_days;
  for (auto at = days.lower_bound(UnitDayKey{tenant, Instant{}});
       at != days.end() && at->first.party == tenant;
       ++at)
    for (const auto& [unit, tally] : at->second.units)
      for (std::size_t of_day = 0; of_day < tally.hours.size(); ++of_day) {
        const auto from = seconds_of(at->first.day + std::chrono::hours(of_day));
        if (tally.hours[of_day] > 0)
          forecasts[unit].observe(from, from + policy::DemandForecast::kHour, tally.hours[of_day]);
      }
  UnitCounts expected;
  for (const auto& [unit, forecast] : forecasts)
    if (const std::int64_t count = forecast.expect(seconds_of(hour)).value_or(0); count > 0)
      expected[unit] = count;
  return expected;
}

}  // namespace tranche::engine
