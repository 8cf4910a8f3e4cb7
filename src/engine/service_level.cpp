// SPDX-License-Identifier: Apache-2.0
#include "engine/service_level.hpp"

#include <algorithm>
#include <array>

#include "engine/decide.hpp"
#include "engine/lease_meter.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kMissesKept = 20;
constexpr std::size_t kLevelsMax = 10'000;

bool covers(const State& state, const ServiceLevel& level, const Job& job) {
  const auto& kinds = level.terms.kinds;
  const bool kind = kinds.empty() || std::find(kinds.begin(), kinds.end(), job.ask.kind) != kinds.end();
  return kind && is_at_or_below(state, job.owner, level.key.party);
}

bool owes(const ServiceLevel& level, JobId job) {
  return std::find(level.owing.begin(), level.owing.end(), job) != level.owing.end();
}

Money credit_for(const ServiceLevel& level, const Job& job) {
  return {static_cast<std::int64_t>(Int128{job.charged.micros} * level.terms.credit_percent / 100)};
}

void judge_start(const ServiceLevel& level, const Job& job, Events& events) {
  const Duration waited = job.started - job.submitted;
  events.push_back(LevelJudged{.key = level.key,
                               .owner = job.owner,
                               .job = job.id,
                               .start = true,
                               .late = std::max(Duration{}, waited - level.terms.start_within)});
}

// A job that somebody stopped broke no promise, but what it was owed for its start it gets.
void judge_end(const ServiceLevel& level, const Job& job, Events& events) {
  const bool promised = level.terms.keep_deadlines && job.ask.deadline.has_value();
  Duration late{};
  if (promised && job.state != JobState::kStopped) late = std::max(Duration{}, job.ended - *job.ask.deadline);
  const bool credit = late > Duration{} || owes(level, job.id);
  if (!promised && !credit) return;
  events.push_back(LevelJudged{.key = level.key,
                               .owner = job.owner,
                               .job = job.id,
                               .late = late,
                               .credit = credit ? credit_for(level, job) : Money{}});
}

void give_back(State& state, const Envelope& envelope, const LevelJudged& event) {
  const auto found = state.jobs.find(event.job);
  if (event.credit <= Money{} || found == state.jobs.end()) return;
  Job& job = found->second;
  const AccountId account = paying_account(state, payer_of(state, event.owner));
  const std::array legs{
      Leg{AccountId::make(kPlatform, AccountKind::kRevenue, account.currency()), {-event.credit.micros}},
      Leg{account, event.credit}};
  post(state.ledger, legs);
  add_spent(state, event.owner, {-event.credit.micros}, envelope.at);
  cost_line(state, event.owner, event.job, envelope.at).credited.micros += event.credit.micros;
  job.charged.micros -= event.credit.micros;
  job.credited.micros += event.credit.micros;
}

}  // namespace

Decision decide(const State& state, const Envelope&, const Actor& actor, const SetLevel& command) {
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  if (state.party(command.key.party) == nullptr) return refuse(not_found());
  const LevelTerms& terms = command.terms;
  const bool sane = !command.key.name.empty() && terms.start_within >= Duration{} &&
                    (terms.start_within > Duration{} || terms.keep_deadlines) &&
                    terms.target_permille <= 1000 && terms.credit_percent <= 100 &&
                    state.work.levels.size() < kLevelsMax;
  if (!sane)
    return refuse(
        Refusal{.reason = Reason::kInvalid,
                .rule = "service level",
                .message = "a service level has a name, promises something, and gives back 100 % at most",
                .fix = "tranche level set gold --party acme --start-within 5m --credit 10"});
  return Events{LevelSet{command.key, terms}};
}

void apply(State& state, const Envelope& envelope, const LevelSet& event) {
  ServiceLevel& level = state.work.levels[event.key];
  level.key = event.key;
  level.terms = event.terms;
  if (level.month == Instant{}) level.month = month_of(envelope.at);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveLevel& command) {
  if (!state.work.levels.contains(command.key) || !may(state, actor, Action::kViewBilling, command.key.party))
    return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kManagePlatform, kPlatform)) return refuse(*refusal);
  return Events{LevelRemoved{command.key}};
}

void apply(State& state, const Envelope&, const LevelRemoved& event) {
  state.work.levels.erase(event.key);
}

Events judge_levels(const State& state, JobId id) {
  Events events;
  const Job* job = state.job(id);
  if (job == nullptr || state.work.groups.contains(id)) return events;  // Chunks are judged, each for itself.
  for (const auto& [key, level] : state.work.levels) {
    if (!covers(state, level, *job)) continue;
    if (is_over(job->state)) {
      judge_end(level, *job, events);
    } else if (level.terms.start_within > Duration{} && job->attempts == 1 && job->started != Instant{}) {
      judge_start(level, *job, events);
    }
  }
  return events;
}

void apply(State& state, const Envelope& envelope, const LevelJudged& event) {
  give_back(state, envelope, event);
  const auto found = state.work.levels.find(event.key);
  if (found == state.work.levels.end()) return;
  ServiceLevel& level = found->second;
  if (level.month != month_of(envelope.at)) {
    level.month = month_of(envelope.at);
    level.kept = level.missed = 0;
    level.credited = {};
  }
  const Job* job = state.job(event.job);
  const bool judged =
      event.start || (level.terms.keep_deadlines && job != nullptr && job->ask.deadline.has_value());
  if (judged) ++(event.late > Duration{} ? level.missed : level.kept);
  level.credited.micros += event.credit.micros;
  if (!event.start) std::erase(level.owing, event.job);
  if (event.late == Duration{}) return;
  if (event.start && level.terms.credit_percent > 0) level.owing.push_back(event.job);
  level.misses.push_back({event.job, envelope.at, event.late, event.start});
  if (level.misses.size() > kMissesKept) level.misses.erase(level.misses.begin());
}

std::vector<LevelRisk> levels_at_risk(const State& state, const ServiceLevel& level, std::size_t most) {
  std::vector<LevelRisk> risks;
  for (const auto& [owner, jobs] : state.index.jobs_by_owner) {
    if (!is_at_or_below(state, owner, level.key.party)) continue;
    for (const JobId id : jobs) {
      const Job* job = state.job(id);
      if (job == nullptr || is_over(job->state) || !covers(state, level, *job)) continue;
      const Duration waited = state.now - job->submitted;
      if (level.terms.start_within > Duration{} && job->attempts == 0 &&
          waited * 2 > level.terms.start_within)
        risks.push_back({id, level.terms.start_within - waited});
      const bool deadline = level.terms.keep_deadlines && job->ask.deadline.has_value();
      const Instant begins = job->started == Instant{} ? state.now : job->started;
      if (deadline && begins + job->ask.time > *job->ask.deadline)
        risks.push_back({id, *job->ask.deadline - job->ask.time - begins});
    }
  }
  std::sort(risks.begin(), risks.end(), [](const auto& a, const auto& b) { return a.left < b.left; });
  if (risks.size() > most) risks.resize(most);
  return risks;
}

}  // namespace tranche::engine
