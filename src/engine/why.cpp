// SPDX-License-Identifier: Apache-2.0
#include "engine/why.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "engine/admission.hpp"
#include "engine/booking_limits.hpp"
#include "engine/lease_meter.hpp"
#include "engine/place_rules.hpp"
#include "engine/preparation.hpp"
#include "engine/schedule.hpp"
#include "engine/start_window.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

using wire::WaitReason;

constexpr std::size_t kAheadShown = 5;

std::string counted(std::int64_t count, std::string_view what) {
  return std::to_string(count) + ' ' + std::string(what) + (count == 1 ? "" : "s");
}

// Who would get its devices by its tenant's guarantee, after those of the tenant that go before it.
std::set<JobId> due_by_guarantee(const State& state) {
  std::set<JobId> due;
  std::map<PartyId, std::int64_t> given;
  for (const auto& [key, jobs] : state.index.capacity->waiting()) {
    if (key.kind == kNoKind) continue;
    for (const JobId id : jobs) {
      const Job& job = state.jobs.at(id);
      const std::int64_t milli = job.ask.gpu_milli();
      if (waits_for_its_time(state, job)) continue;
      if (milli == 0 || !within_guarantee(state, key.tenant, given[key.tenant] + milli)) break;
      given[key.tenant] += milli;
      due.insert(id);
    }
  }
  return due;
}

// As the pass takes them: who has waited too long, priority, who is within its guarantee, whose tenant had
// less lately, submission.
void list_ahead(const State& state, const Actor& actor, const Job& job, wire::Why& why) {
  const auto ranks = state.index.capacity->ranks(state.now);
  const std::set<JobId> due = due_by_guarantee(state);
  const auto turn_of = [&](const WaitingKey& key, const Job& one) {
    if (state.now - one.submitted >= kAgedAfter) return std::tuple(-1, false, 0, one.id);
    const auto rank = ranks.find(key.tenant);
    return std::tuple(key.tier, !due.contains(one.id), rank == ranks.end() ? 0 : rank->second, one.id);
  };
  const auto own = turn_of({.tier = 100 - job.ask.priority, .tenant = tenant_of(state, job.owner)}, job);
  std::set<std::tuple<std::int32_t, bool, std::int32_t, JobId>> first;
  for (const auto& [key, jobs] : state.index.capacity->waiting()) {
    if (key.kind == kNoKind) continue;  // Whatever becomes free, it is not what they wait for.
    for (const JobId id : jobs) {
      const Job& other = state.jobs.at(id);
      const auto turn = turn_of(key, other);
      if (turn >= own || waits_for_its_time(state, other)) continue;
      ++why.ahead_count;
      first.insert(turn);
      if (first.size() > kAheadShown) first.erase(std::prev(first.end()));
    }
  }
  for (const auto& [tier, borrows, rank, id] : first) {
    const Job& other = state.jobs.at(id);
    const bool visible = can_see(state, actor, other);
    why.ahead.push_back({.job = visible ? id : JobId{},
                         .name = visible ? other.name : "",
                         .party = visible ? path_of(state, other.owner) : "",
                         .gpu_milli = other.ask.gpu_milli()});
  }
}

// What stands in the way on the nodes, most telling first.
std::pair<WaitReason, std::string> obstacle(const policy::Unfit& unfit) {
  const std::int64_t meant = unfit.cpu + unfit.memory + unfit.devices + unfit.fragmentation + unfit.fits;
  if (meant == 0 && unfit.too_small > 0)
    return {WaitReason::kNoSuchDevice,
            "no device connected is large enough, even empty (" + counted(unfit.too_small, "node") +
                " looked at)"};
  if (meant == 0 && unfit.closed > 0)
    return {WaitReason::kHealth, counted(unfit.closed, "node") + " of this kind, all closed to new work"};
  if (meant == 0)
    return {WaitReason::kNoSuchDevice, "no node connected has what it asks for, or may be used by it"};
  if (unfit.fits > 0) return {WaitReason::kPriority, "room there is kept for work that goes first"};
  if (unfit.fragmentation > unfit.devices)
    return {WaitReason::kCapacity,
            "enough is idle on " + counted(unfit.fragmentation, "node") + ", but not together on one device"};
  if (unfit.devices > 0)
    return {WaitReason::kCapacity,
            "everything that fits is taken: " + counted(unfit.devices, "node") + " full"};
  return {WaitReason::kCapacity,
          "host memory or CPUs are taken on " + counted(unfit.cpu + unfit.memory, "node")};
}

// The next window of the booking that a job names.
std::optional<std::string> window_ahead(const State& state, const Job& job) {
  const Booking* booking = booking_named(state, job);
  if (booking == nullptr) return std::nullopt;
  for (const BookedWindow& window : booking->windows) {
    if (window.state == WindowState::kOpen)
      return "waits for room in the window of " + text(booking->id) + ", open until " + text(window.to);
    if (window.state == WindowState::kPlanned)
      return "waits for the window of " + text(booking->id) + " that opens at " + text(window.from);
  }
  return std::nullopt;
}

std::optional<Refusal> money_problem(const State& state, const Job& job) {
  return funding_problem(state, job.owner, job.id, job.ask, job.admission, Money{}, state.now);
}

// Which rule lets no further chunk of a group in.
std::pair<WaitReason, std::string> no_chunk_story(const State& state, const JobGroup& group) {
  const auto admitted = admit_chunk(state, group, state.now);
  if (admitted) return {WaitReason::kCapacity, "its next chunk is being made"};
  const Refusal& refusal = admitted.error();
  return {refusal.reason == Reason::kBudget ? WaitReason::kBudget : WaitReason::kQuota,
          "no chunk of it can be admitted now: " + refusal.message};
}

// A job that the scheduler does not look at yet: it waits for others or for its time, or its chunks wait for
// it.
std::optional<std::pair<WaitReason, std::string>> held_back(const State& state, const Job& job) {
  if (const auto waits = state.work.waits.find(job.id); waits != state.work.waits.end()) {
    std::string message = "waits for ";
    for (const After& after : waits->second.after)
      message += (&after == &waits->second.after.front() ? "" : ", ") + text(after.job) +
                 (after.any ? " to end" : " to end well");
    return std::pair(WaitReason::kDependency, std::move(message));
  }
  if (auto time = waits_for_its_time(state, job)) return std::pair(WaitReason::kWindow, std::move(*time));
  if (const auto group = state.work.groups.find(job.id); group != state.work.groups.end()) {
    if (group->second.chunks.empty()) return no_chunk_story(state, group->second);
    const Job& first = state.jobs.at(group->second.chunks.front().job);
    if (const auto problem = money_problem(state, first))
      return std::pair(WaitReason::kBudget, "its chunks wait for money: " + problem->message);
    return std::pair(
        WaitReason::kCapacity,
        "its chunks wait for capacity; see: tranche why " + text(group->second.chunks.front().job));
  }
  return std::nullopt;
}

// A job of many units that has begun, and of which nothing runs now.
bool is_stalled(const State& state, const Job& job) {
  const auto group = state.work.groups.find(job.id);
  if (job.state != JobState::kRunning || group == state.work.groups.end()) return false;
  const auto& chunks = group->second.chunks;
  return std::all_of(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
    return state.jobs.at(chunk.job).state == JobState::kPending;
  });
}

// A job that is off its devices for the sake of others.
std::string paused_story(const State& state, const Job& job) {
  const Lease& lease = state.leases.at(job.leases.front());
  if (lease.parking != Parking::kParked) return text(job.id) + " is paused";
  return "paused since " + text(lease.parked) +
         ": work with more right to its place has it; it goes on there when the place is free, or from its "
         "checkpoint where there is room sooner";
}

}  // namespace

std::string wait_summary(const State& state, const Job& job) {
  if (const auto held = held_back(state, job)) return held->second;
  const Capacity& capacity = *state.index.capacity;
  if (capacity.empty()) return "no capacity connected";
  if (capacity.nothing_meant(job.id)) return "nothing connected is " + job.ask.gpus;
  if (const auto window = window_ahead(state, job)) return *window;
  if (job.reason == EndReason::kPreempted) return "preempted, waits for capacity";
  if (job.reason == EndReason::kResized) return "goes on with another number of workers";
  if (job.not_before > state.now) return "backs off after a fault";
  return "waits for capacity";
}

std::string held_summary(const Job& job) {
  return "failed by the platform too often (" +
         (job.message.empty() ? std::string(wire::name_of(job.reason)) : job.message) +
         "); tranche release " + text(job.id) + " tries again, tranche stop ends it";
}

std::string pause_summary(const Job& job) {
  if (!job.is_put_aside()) return "is being paused by request: it saves what it did";
  return "paused by request since " + text(job.paused_at) +
         ": it keeps its storage and holds no device; tranche resume " + text(job.id) + " takes it up again";
}

wire::Why explain(const State& state, const Actor& actor, const Job& job) {
  wire::Why why{.job = job.id, .state = std::string(wire::name_of(job.state)), .since = job.submitted};
  if (job.paused) {
    why.reason = WaitReason::kPaused;
    why.message = pause_summary(job);
    return why;
  }
  if (job.state == JobState::kPaused && !job.leases.empty()) {
    why.reason = WaitReason::kPreempted;
    why.message = paused_story(state, job);
    return why;
  }
  if (job.state != JobState::kPending && !is_stalled(state, job)) {
    why.message = is_over(job.state)             ? "it has ended"
                  : job.state == JobState::kHeld ? held_summary(job)
                                                 : "it waits for nothing";
    return why;
  }
  Capacity& capacity = *state.index.capacity;
  // It was admitted, so these were all checked and passed.
  why.not_the_cause = {WaitReason::kQuota, WaitReason::kBudget, WaitReason::kPolicy};
  if (auto held = held_back(state, job)) {
    std::tie(why.reason, why.message) = std::move(*held);
    std::erase(why.not_the_cause, why.reason);
    return why;
  }
  list_ahead(state, actor, job, why);
  if (capacity.empty()) {
    why.reason = WaitReason::kNoCapacityConnected;
    why.message = "no capacity connected: no node has joined this platform yet";
    return why;
  }
  const auto shape = capacity.shape_of(job.ask, trust_group(state, tenant_of(state, job.owner)));
  if (!shape) {
    why.reason = WaitReason::kNoSuchDevice;
    why.message = "nothing connected is " + job.ask.gpus + "; tranche gpus shows what there is";
    return why;
  }
  if (job.not_before > state.now) {
    why.reason = WaitReason::kBackoff;
    why.message = "its last attempt failed through no fault of its own; it is tried again shortly";
    return why;
  }
  if (const auto window = window_ahead(state, job)) {
    why.reason = WaitReason::kWindow;
    why.message = *window;
    return why;
  }
  if (auto problem = money_problem(state, job)) {
    why.reason = WaitReason::kBudget;
    why.message = problem->message;
    why.refusal = std::move(problem);
    std::erase(why.not_the_cause, WaitReason::kBudget);
    return why;
  }
  if (!Preparation(state, state.now).leaves_room(job) &&
      !within_guarantee(state, tenant_of(state, job.owner), job.ask.gpu_milli())) {
    why.reason = WaitReason::kPriority;
    why.message =
        "room is kept for work of higher priority that is expected before it would be done (tranche forecast "
        "demand); a shorter --time or --preemptible helps";
    return why;
  }
  const policy::Unfit unfit = capacity.fleet().explain(*shape);
  std::tie(why.reason, why.message) = obstacle(unfit);
  if (const std::string places = places_text(state, job, state.now); !places.empty()) {
    // What is idle elsewhere is not for it.
    if (unfit.fits > 0) why.reason = WaitReason::kPolicy;
    why.message = (unfit.fits > 0 ? "" : why.message + "; ") + places;
    std::erase(why.not_the_cause, WaitReason::kPolicy);
  }
  if (unfit.fits > 0 && !barred_devices(state, state.now, job, *shape, {}).empty()) {
    why.reason = WaitReason::kBooking;
    why.message = "what is idle is booked before it would be done; a shorter --time or --preemptible helps";
  }
  if (job.reason == EndReason::kResized) why.message = job.message + "; " + why.message;
  if (job.reason == EndReason::kPreempted) why.message = "preempted (" + job.message + "); " + why.message;
  return why;
}

}  // namespace tranche::engine
