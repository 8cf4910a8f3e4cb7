// SPDX-License-Identifier: Apache-2.0
#include "engine/recurring.hpp"

#include <algorithm>

#include "engine/decide.hpp"
#include "engine/submit.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kTimesMax = 1000;

SubmitJob run_of(const std::string& name, const JobTemplate& job) {
  return {.name = name,
          .ask = job.ask,
          .spec = job.spec,
          .unit = job.unit,
          .units = job.units,
          .chunk = job.chunk,
          .unit_tries = job.unit_tries};
}

void forget_next(State& state, const RecurringKey& key) {
  std::erase_if(state.index.work->runs, [&](const auto& entry) { return entry.second == key; });
}

void await_next(WorkIndex& index, const RecurringJob& job) {
  if (!job.times.empty()) index.runs.emplace(job.times.front(), job.key);
}

}  // namespace

Decision decide(const State& state,
                const Envelope& envelope,
                const Actor& actor,
                const SetRecurring& command) {
  const PartyId owner = command.owner == PartyId{} ? actor.party : command.owner;
  if (command.name.empty() || command.times.empty() || command.times.size() > kTimesMax ||
      !std::is_sorted(command.times.begin(), command.times.end()))
    return refuse(Refusal{.reason = Reason::kInvalid,
                          .rule = "recurring",
                          .message = "a recurring job has a name and 1 to 1000 times in the future",
                          .fix = "tranche run --name nightly --every \"weekdays 22:00\" -- ./train.sh"});
  if (const auto fits = submission(state, envelope, actor, owner, run_of(command.name, command.job)); !fits)
    return refuse(fits.error());
  const RecurringKey key{tenant_of(state, owner), command.name};
  const auto before = state.work.recurring.find(key);
  if (before != state.work.recurring.end() && before->second.owner != owner)
    if (auto refusal = check_access(state, actor, Action::kStopJob, before->second.owner))
      return refuse(*refusal);
  return Events{RecurringSet{
      key, owner, command.job, command.every, command.zone, command.times, command.rule, command.planned_to}};
}

void apply(State& state, const Envelope&, const RecurringSet& event) {
  RecurringJob& job = state.work.recurring[event.key];
  forget_next(state, event.key);
  job.key = event.key;
  job.owner = event.owner;
  job.job = event.job;
  job.every = event.every;
  job.zone = event.zone;
  job.times = event.times;
  job.rule = event.rule;
  job.planned_to = event.planned_to;
  await_next(*state.index.work, job);
}

Decision decide(const State& state, const Envelope&, const PlanRecurring& command) {
  const auto found = state.work.recurring.find(command.key);
  if (found == state.work.recurring.end()) return Events{};
  const RecurringJob& job = found->second;
  const bool follows =
      std::is_sorted(command.times.begin(), command.times.end()) &&
      (command.times.empty() || job.times.empty() || command.times.front() > job.times.back());
  if (job.rule.empty() || job.planned_to != command.planned_from || !follows) return Events{};
  return Events{RecurringPlanned{command.key, job.owner, command.times, command.planned_to}};
}

void apply(State& state, const Envelope&, const RecurringPlanned& event) {
  const auto found = state.work.recurring.find(event.key);
  if (found == state.work.recurring.end()) return;
  RecurringJob& job = found->second;
  if (event.times.empty()) job.rule.clear();
  forget_next(state, event.key);
  job.times.insert(job.times.end(), event.times.begin(), event.times.end());
  job.planned_to = event.planned_to;
  await_next(*state.index.work, job);
}

Decision decide(const State& state, const Envelope&, const Actor& actor, const RemoveRecurring& command) {
  const auto found = state.work.recurring.find(command.key);
  if (found == state.work.recurring.end() || !may(state, actor, Action::kViewJob, found->second.owner))
    return refuse(not_found());
  if (auto refusal = check_access(state, actor, Action::kStopJob, found->second.owner))
    return refuse(*refusal);
  return Events{RecurringRemoved{command.key, found->second.owner}};
}

void apply(State& state, const Envelope&, const RecurringRemoved& event) {
  forget_next(state, event.key);
  state.work.recurring.erase(event.key);
}

Events run_recurring(const State& state, const Envelope& envelope, const RecurringJob& recurring) {
  RecurringRan ran{.key = recurring.key, .owner = recurring.owner, .until = envelope.at};
  const Job* last = state.job(recurring.last);
  if (last != nullptr && !is_over(last->state)) {
    ran.problem = text(last->id) + ", the run before, has not ended";
    return Events{std::move(ran)};
  }
  auto made = submission_events(state, envelope, recurring.owner, run_of(recurring.key.name, recurring.job));
  if (!made) {
    ran.problem = made.error().message;
    return Events{std::move(ran)};
  }
  ran.job = {state.next_job};
  made->push_back(std::move(ran));
  return std::move(*made);
}

void apply(State& state, const Envelope&, const RecurringRan& event) {
  const auto found = state.work.recurring.find(event.key);
  if (found == state.work.recurring.end()) return;
  RecurringJob& job = found->second;
  forget_next(state, event.key);
  std::erase_if(job.times, [&](Instant at) { return at <= event.until; });
  job.problem = event.problem;
  if (event.job == JobId{}) {
    ++job.passed_over;
  } else {
    ++job.runs;
    job.last = event.job;
  }
  await_next(*state.index.work, job);
}

void rebuild_recurring_index(State& state) {
  for (const auto& [key, job] : state.work.recurring) await_next(*state.index.work, job);
}

}  // namespace tranche::engine
