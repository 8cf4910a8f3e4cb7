// SPDX-License-Identifier: Apache-2.0
#include "engine/demand.hpp"

#include <algorithm>

#include "engine/state.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

policy::Seconds seconds_of(Instant at) {
  return std::chrono::floor<seconds>(at).time_since_epoch().count();
}

}  // namespace

Instant hour_start(Instant at) {
  return std::chrono::floor<hours>(at);
}

std::unique_ptr<Demand> Demand::rebuilt(const State& state) {
  auto demand = std::make_unique<Demand>();
  for (const auto& [id, lease] : state.leases) {
    const Job* job = state.job(lease.job);
    if (!lease.live() && job != nullptr) demand->ended(lease, *job);
  }
  return demand;
}

// Counted from when it was asked for, not from when there was room: it is demand that is foreseen.
void Demand::ended(const Lease& lease, const Job& job) {
  if (lease.slices.empty() || lease.ended <= lease.granted) return;
  const Instant from = lease.attempt == 1 ? std::min(job.submitted, lease.granted) : lease.granted;
  History& history = classes_[{job.ask.priority, lease.tenant, job.ask.kind}];
  history.forecast.observe(
      seconds_of(from), seconds_of(from + (lease.ended - lease.granted)), lease.gpu_milli());
  if (!job.ask.profile.empty())
    profiles_[{job.ask.priority, job.ask.profile}].observe(
        seconds_of(from),
        seconds_of(from + (lease.ended - lease.granted)),
        1000 * static_cast<std::int64_t>(lease.slices.size()));
  ++history.runs;
  history.seconds += std::chrono::floor<seconds>(lease.ended - lease.granted).count();
}

std::int64_t Demand::expected(const DemandClass& wanted, Instant hour) const {
  const auto found = classes_.find(wanted);
  return found == classes_.end() ? 0 : found->second.forecast.expect(seconds_of(hour)).value_or(0);
}

std::int64_t Demand::expected(const ProfileClass& wanted, Instant hour) const {
  const auto found = profiles_.find(wanted);
  return found == profiles_.end() ? 0 : found->second.expect(seconds_of(hour)).value_or(0);
}

std::int64_t Demand::expected_above(std::uint8_t priority, Instant hour) const {
  std::int64_t sum = 0;
  for (auto one = classes_.rbegin(); one != classes_.rend() && one->first.priority > priority; ++one)
    sum += one->second.forecast.expect(seconds_of(hour)).value_or(0);
  return sum;
}

Duration Demand::usual_run(const DemandClass& wanted) const {
  const auto found = classes_.find(wanted);
  if (found == classes_.end() || found->second.runs == 0) return {};
  return seconds(found->second.seconds / found->second.runs);
}

}  // namespace tranche::engine
