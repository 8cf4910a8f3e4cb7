// SPDX-License-Identifier: Apache-2.0
#include "api/recurring_plan.hpp"

#include "base/wall_clock.hpp"
#include "server/loop.hpp"

namespace tranche::api {
namespace {

constexpr std::size_t kCountMax = 1000;                 // Of a rule that says how often.
constexpr std::chrono::hours kFarthest(24 * 366 * 10);  // A rule that is silent for so long has ended.

bool is_counted(const Repeat& repeat) {
  return repeat.rule.find("COUNT=") != std::string::npos;
}

std::int64_t seconds_of(LocalTime local) {
  return local.time_since_epoch().count();
}

}  // namespace

Result<FirstTimes, wire::Problem> first_times(const wire::RecurringSpec& spec,
                                              const std::string& zone_name,
                                              Instant now) {
  const auto wrong = [](std::string what, std::string message, std::string hint = {}) {
    return refuse(wire::Problem{std::move(what), std::move(message), std::move(hint)});
  };
  const auto rule = read_every({spec.every, zone_name, spec.times, spec.until}, now);
  if (!rule) return refuse(rule.error());
  if (spec.times > kCountMax) return wrong("times", "must be at most 1000", "leave it out to go on for ever");
  // How often is counted from the first, so a rule that says it is worked out to its end at once.
  const std::size_t most = is_counted(rule->repeat) ? kCountMax : engine::kTimesAhead;
  const auto local = occurrences(*rule->zone, rule->from, rule->repeat, most, kFarthest);
  if (!local) return wrong("every", local.error());
  FirstTimes first;
  for (const LocalTime one : *local)
    if (rule->zone->instant(one) > now) first.times.push_back(rule->zone->instant(one));
  if (first.times.empty()) return wrong("until", "no time is left before then");
  if (!is_counted(rule->repeat)) first.rule = rule->repeat.rule;
  first.planned_to = seconds_of(local->back());
  return first;
}

std::optional<engine::PlanRecurring> times_to_follow(const engine::RecurringJob& job, Instant now) {
  if (job.rule.empty() || job.times.size() >= engine::kTimesLeftLeast) return std::nullopt;
  const auto zone = Zone::find(job.zone);
  if (!zone) return std::nullopt;  // Left the database since: what is planned still runs.
  engine::PlanRecurring next{.key = job.key, .planned_from = job.planned_to, .planned_to = job.planned_to};
  const Instant after = job.times.empty() ? now : std::max(now, job.times.back());
  // The last time is one of the rule's own, so the rule goes on from it as from its first day. Local times
  // are kept apart from instants: in a night of changing clocks the two do not lead back to each other.
  while (next.times.empty()) {  // After a long sleep many are over.
    const LocalTime last{std::chrono::seconds(next.planned_to)};
    const auto local = occurrences(*zone, last, Repeat{.rule = job.rule}, engine::kTimesAhead + 1, kFarthest);
    if (!local || local->empty() || local->back() <= last) return next;
    next.planned_to = seconds_of(local->back());
    for (const LocalTime one : *local)
      if (zone->instant(one) > after) next.times.push_back(zone->instant(one));
  }
  return next;
}

void plan_recurring(server::Loop& loop) {
  loop.read([&loop](const engine::State& state) {
    const auto now = std::max(wall_clock(), state.now);
    for (const auto& [key, job] : state.work.recurring)
      if (auto next = times_to_follow(job, now))
        loop.submit({.origin = "calendar"}, std::move(*next), [](const server::Outcome&) {});
  });
}

}  // namespace tranche::api
