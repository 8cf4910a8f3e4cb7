// SPDX-License-Identifier: Apache-2.0
#include "engine/preparation.hpp"

#include <algorithm>

#include "engine/schedule.hpp"
#include "policy/backfill.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

policy::Seconds seconds_of(Instant at) {
  return std::chrono::floor<seconds>(at).time_since_epoch().count();
}

std::int64_t milli_in_service(const State& state) {
  std::int64_t all = 0;
  for (const auto& [id, device] : state.devices)
    if (takes_work(device.state) && takes_work(state.nodes.at(device.node))) all += policy::kDeviceMilli;
  return all;
}

}  // namespace

// Its time limit, or what such work usually takes if that is less.
Duration Preparation::usual_stay(const Job& job) const {
  const Duration usual =
      state_.index.demand->usual_run({job.ask.priority, tenant_of(state_, job.owner), job.ask.kind});
  if (usual == Duration{}) return job.ask.time;
  return job.ask.time == Duration{} ? usual : std::min(usual, job.ask.time);
}

// What has outstayed its usual time is given as long again.
Instant Preparation::stays_until(const Job& job, Instant since) const {
  const Duration stay = usual_stay(job);
  if (stay == Duration{}) return Instant::max();
  return Instant{seconds(
      policy::expected_end(seconds_of(since), std::chrono::ceil<seconds>(stay).count(), seconds_of(now_)))};
}

std::size_t Preparation::hours_until(Instant until) const {
  const Instant begin = hour_start(now_);
  if (until >= begin + hours(kHours)) return kHours;
  return static_cast<std::size_t>(std::chrono::ceil<hours>(until - begin).count());
}

void Preparation::take(Milli& room, std::int64_t milli, Instant until) const {
  for (std::size_t hour = 0; hour < hours_until(until); ++hour) room[hour] -= milli;
}

Preparation::Milli Preparation::room_below(std::uint8_t priority) const {
  Milli room{}, present{};
  room.fill(milli_in_service(state_));
  for (const auto& [id, node] : state_.nodes) {
    for (const LeaseId lease_id : state_.index.capacity->leases_on(id)) {
      const Lease& lease = state_.leases.at(lease_id);
      const Job* job = state_.job(lease.job);
      if (!lease.live() || !lease.holds_slices() || job == nullptr || job->ask.preemptible) continue;
      take(
          job->ask.priority > priority ? present : room, lease.gpu_milli(), stays_until(*job, lease.granted));
    }
  }
  // What goes first and is there already counts as expected, whatever was expected.
  for (std::size_t hour = 0; hour < kHours; ++hour) {
    const Instant at = hour_start(now_) + hours(hour);
    const std::int64_t expected =
        state_.index.demand->expected_above(priority, at) * state_.settings.prepare_percent / 100;
    room[hour] += std::min(-expected, present[hour]);
  }
  return room;
}

bool Preparation::is_crowded(std::uint8_t priority, const Milli& room) const {
  std::int64_t left = 0;  // In milli-hours; half of the day's, for not all of it is where it is needed.
  for (const std::int64_t milli : room) left += std::max<std::int64_t>(milli, 0) / 2;
  for (const auto& [key, jobs] : state_.index.capacity->waiting()) {
    if (key.tier < 100 - priority || jobs.empty()) continue;
    const Job& one = state_.jobs.at(*jobs.begin());
    const auto stay = std::chrono::ceil<seconds>(std::min<Duration>(usual_stay(one), hours(kHours)));
    left -= one.ask.gpu_milli() * stay.count() / seconds(hours(1)).count() *
            static_cast<std::int64_t>(jobs.size());
    if (left < 0) return true;
  }
  return false;
}

Preparation::Outlook& Preparation::outlook(std::uint8_t priority) {
  const auto [at, fresh] = by_priority_.try_emplace(priority);
  if (fresh) {
    at->second.room = room_below(priority);
    at->second.crowded = is_crowded(priority, at->second.room);
  }
  return at->second;
}

bool Preparation::leaves_room(const Job& job) {
  if (!on() || job.ask.preemptible || job.ask.instances == 0) return true;
  const Outlook& ahead = outlook(job.ask.priority);
  if (ahead.crowded) return true;
  const std::size_t last = hours_until(stays_until(job, now_));
  return std::all_of(ahead.room.begin(),
                     ahead.room.begin() + static_cast<std::ptrdiff_t>(last),
                     [&](std::int64_t room) { return room >= job.ask.gpu_milli(); });
}

void Preparation::started(const Job& job) {
  if (!on() || job.ask.preemptible) return;
  for (auto& [priority, ahead] : by_priority_)
    if (job.ask.priority <= priority) take(ahead.room, job.ask.gpu_milli(), stays_until(job, now_));
}

void Preparation::append_kept(const Job& job, const policy::Shape& shape, std::vector<Barred>& barred) {
  const bool due = within_guarantee(state_, tenant_of(state_, job.owner), job.ask.gpu_milli()) ||
                   now_ - job.submitted >= kAgedAfter;
  if (!on() || job.ask.preemptible || shape.devices == 0 || due) return;
  if (stays_until(job, now_) <= hour_start(now_) + hours(1)) return;  // Gone before it matters.
  if (!layouts_) layouts_ = plan_layouts(state_, now_, now_ + kLayoutAhead);
  for (const PlannedPartition& one : *layouts_) {
    if (one.priority <= job.ask.priority || wire::equal_ignoring_case(one.profile, job.ask.profile)) continue;
    barred.push_back({one.device, shape.profile != 0 ? one.slots : kAllSlots});
  }
}

Instant Preparation::look_again() const {
  return hour_start(now_) + hours(1);
}

}  // namespace tranche::engine
