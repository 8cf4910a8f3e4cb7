// SPDX-License-Identifier: Apache-2.0
// What a lease takes while it runs is not always the same: its slices become smaller or larger, and a lease
// that is parked is on its node and on none of its devices.
#include <algorithm>

#include "engine/capacity.hpp"
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

policy::Seconds seconds(Instant at) {
  return std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
}

// Its processes keep their cores' share and their memory.
policy::Shape on_host(policy::Shape shape) {
  return {.cpu_milli = shape.cpu_milli, .memory_mib = shape.memory_mib, .filter = shape.filter};
}

constexpr Duration kHealthyRun = std::chrono::minutes(10);  // What lasted so long was worth its place.
constexpr std::size_t kCrashesMost = 64;
constexpr Duration kCrashForgiven = std::chrono::minutes(5);  // One of them, at a time.

}  // namespace

// Ends by its own fault, right after its start.
void Capacity::note_crash(const Lease& lease) {
  const bool own = lease.reason == EndReason::kExited && (lease.exit_code != 0 || lease.exit_signal != 0);
  if (!own || lease.revoked || lease.slices.empty() || lease.ended - lease.granted >= kHealthyRun) return;
  std::deque<Instant>& crashes = crashes_[lease.tenant];
  crashes.insert(std::upper_bound(crashes.begin(), crashes.end(), lease.ended), lease.ended);
  if (crashes.size() > kCrashesMost) crashes.pop_front();
}

bool Capacity::is_storming(PartyId tenant, Instant now) const {
  const auto found = crashes_.find(tenant);
  if (found == crashes_.end() || found->second.size() < kCrashesMost) return false;
  return now - found->second.front() < kCrashForgiven * static_cast<std::int64_t>(kCrashesMost);
}

void Capacity::lift(const Lease& lease, const Ask& ask, Instant at) {
  running_milli_[lease.tenant] -= lease.gpu_milli();
  shares_.change_rate(share_leaf(lease.tenant), -lease.gpu_milli(), seconds(at));
  const policy::Placement placement = placement_of(lease);
  placer_.release(placer_.kind(shape_of(lease, ask)), placement, policy::Learning::kIgnore);
  waiting_kinds_.node_freed(placement.node);
  changed();
}

void Capacity::put_back(const Lease& lease, const Ask& ask, Instant at) {
  running_milli_[lease.tenant] += lease.gpu_milli();
  shares_.change_rate(share_leaf(lease.tenant), lease.gpu_milli(), seconds(at));
  moved_ = true;
  placer_.take_anyway(placer_.kind(shape_of(lease, ask)), placement_of(lease));
}

// What was freed on a device that is owed a wipe is nobody else's before all of it is paid.
void Capacity::keep_promises_on(const State& state, DeviceId device) {
  for (const LeaseId id : std::set(promising_)) {
    const Lease* lease = state.lease(id);
    if (lease == nullptr || lease->holds_slices()) continue;
    const auto on_it = [&](const Slice& slice) { return slice.device == device; };
    if (std::any_of(lease->slices.begin(), lease->slices.end(), on_it)) keep_promise(*lease);
  }
}

void Capacity::keep_promise(const Lease& lease) {
  const auto is_owed = [&](const Slice& slice) { return owed_.contains(slice.device); };
  if (std::any_of(lease.slices.begin(), lease.slices.end(), is_owed)) return;
  if (promising_.erase(lease.id) == 0) return;
  freed_for_[lease.promised_to].insert(lease.node);
  if (lease.goes_to != NodeId{}) moved_to_[lease.job] = lease.goes_to;
}

void Capacity::park(const Lease& lease, const Ask& ask, Instant at) {
  lift(lease, ask, at);
  keep_promise(lease);
  preemptible_.erase(lease.id);
  resizable_.erase(lease.id);
  stay_on_host(lease, ask);
}

void Capacity::unpark(const Lease& lease, const Ask& ask, Instant at) {
  leave_host(lease, ask);
  parked_.erase(lease.id);
  if (ask.preemptible) preemptible_.insert(lease.id);
  if (ask.range) resizable_.insert(lease.id);
  put_back(lease, ask, at);
}

void Capacity::stay_on_host(const Lease& lease, const Ask& ask) {
  leases_[lease.node].insert(lease.id);
  parked_.insert(lease.id);
  policy::Placement placement;
  placement.node = placement_of(lease).node;
  placer_.take_anyway(placer_.kind(on_host(shape_of(lease, ask))), placement);
}

void Capacity::leave_host(const Lease& lease, const Ask& ask) {
  policy::Placement placement;
  placement.node = placement_of(lease).node;
  placer_.release(placer_.kind(on_host(shape_of(lease, ask))), placement, policy::Learning::kIgnore);
  waiting_kinds_.node_freed(placement.node);
  changed();
}

}  // namespace tranche::engine
