// SPDX-License-Identifier: Apache-2.0
#include "engine/demand.hpp"

#include <algorithm>

#include "engine/state.hpp"
#include "policy/backfill.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

policy::Seconds seconds_of(Instant at) {
  return std::chrono::floor<seconds>(at).time_since_epoch().count();
}

DemandClass class_of(const State& state, const Job& job) {
  return {job.ask.priority, tenant_of(state, job.owner), job.ask.kind};
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
  ++history.runs;
  history.seconds += std::chrono::floor<seconds>(lease.ended - lease.granted).count();
}

std::int64_t Demand::expected(const DemandClass& wanted, Instant hour) const {
  const auto found = classes_.find(wanted);
  return found == classes_.end() ? 0 : found->second.forecast.expect(seconds_of(hour)).value_or(0);
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

Preparation::Preparation(const State& state, Instant now) : state_(state), now_(now) {}

bool Preparation::on() const {
  return state_.settings.prepare_percent > 0;
}

// By its time limit, or sooner if such work usually ends sooner; what has outstayed that is given as long
// again.
Instant Preparation::stays_until(const Job& job, Instant since) const {
  const Duration usual = state_.index.demand->usual_run(class_of(state_, job));
  Duration stay = job.ask.time;
  if (usual > Duration{} && (stay == Duration{} || usual < stay)) stay = usual;
  if (stay == Duration{}) return Instant::max();
  return Instant{seconds(
      policy::expected_end(seconds_of(since), std::chrono::ceil<seconds>(stay).count(), seconds_of(now_)))};
}

std::size_t Preparation::hours_until(Instant until) const {
  if (until >= hour_start(now_) + hours(kHours)) return kHours;
  return static_cast<std::size_t>(std::chrono::ceil<hours>(until - hour_start(now_)).count());
}

void Preparation::take(Hours& hours, std::int64_t milli, Instant until) const {
  for (std::size_t hour = 0; hour < hours_until(until); ++hour) hours.room[hour] -= milli;
}

Preparation::Hours& Preparation::hours_of(std::uint8_t priority) {
  const auto [at, fresh] = by_priority_.try_emplace(priority);
  Hours& made = at->second;
  if (!fresh) return made;
  std::int64_t all = 0;
  for (const auto& [id, device] : state_.devices)
    if (takes_work(device.state) && takes_work(state_.nodes.at(device.node))) all += policy::kDeviceMilli;
  Hours above;  // What goes first and is there already counts as expected, whatever was expected.
  for (std::size_t hour = 0; hour < kHours; ++hour)
    above.room[hour] = -state_.index.demand->expected_above(
                           priority, hour_start(now_) + hours(static_cast<std::int64_t>(hour))) *
                       state_.settings.prepare_percent / 100;
  Hours present;
  made.room.fill(all);
  for (const auto& [id, node] : state_.nodes) {
    for (const LeaseId lease_id : state_.index.capacity->leases_on(id)) {
      const Lease& lease = state_.leases.at(lease_id);
      const Job* job = state_.job(lease.job);
      if (!lease.live() || job == nullptr || job->ask.preemptible) continue;
      take(
          job->ask.priority > priority ? present : made, lease.gpu_milli(), stays_until(*job, lease.granted));
    }
  }
  for (std::size_t hour = 0; hour < kHours; ++hour)
    made.room[hour] += std::min(above.room[hour], present.room[hour]);
  return made;
}

bool Preparation::leaves_room(const Job& job) {
  if (!on() || job.ask.preemptible || job.ask.instances == 0) return true;
  const Hours& hours = hours_of(job.ask.priority);
  for (std::size_t hour = 0; hour < hours_until(stays_until(job, now_)); ++hour)
    if (hours.room[hour] < job.ask.gpu_milli()) return false;
  return true;
}

void Preparation::started(const Job& job) {
  if (!on() || job.ask.preemptible) return;
  for (auto& [priority, hours] : by_priority_)
    if (job.ask.priority <= priority) take(hours, job.ask.gpu_milli(), stays_until(job, now_));
}

Instant Preparation::look_again() const {
  return hour_start(now_) + hours(1);
}

}  // namespace tranche::engine
