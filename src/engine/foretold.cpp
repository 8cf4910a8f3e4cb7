// SPDX-License-Identifier: Apache-2.0
#include "engine/foretold.hpp"

#include "engine/decide.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kOutcomesKept = 400;
constexpr std::size_t kOpenMost = 10'000;

}  // namespace

Decision decide(const State& state, const Envelope&, const NoteForecast& command) {
  const Job* job = state.job(command.job);
  const bool waits = job != nullptr && job->state == JobState::kPending;
  // The first answer counts: those that come later know more.
  if (!waits || state.foretold.open.contains(command.job) || state.foretold.open.size() >= kOpenMost)
    return Events{};
  return Events{StartForetold{job->id, job->owner, command.p50, command.p90}};
}

void apply(State& state, const Envelope& envelope, const StartForetold& event) {
  state.foretold.open.insert_or_assign(event.job, Told{event.job, envelope.at, event.p50, event.p90});
}

void note_foretold_start(State& state, JobId id, Instant at) {
  const auto told = state.foretold.open.find(id);
  if (told == state.foretold.open.end()) return;
  const Job* job = state.job(id);
  auto& outcomes = state.foretold.outcomes;
  outcomes.push_back({.job = id,
                      .tenant = job == nullptr ? PartyId{} : tenant_of(state, job->owner),
                      .at = at,
                      .p50 = told->second.p50,
                      .p90 = told->second.p90,
                      .really = at - told->second.at});
  if (outcomes.size() > kOutcomesKept) outcomes.erase(outcomes.begin());
  state.foretold.open.erase(told);
}

void drop_foretold(State& state, JobId id) {
  state.foretold.open.erase(id);
}

}  // namespace tranche::engine
