// SPDX-License-Identifier: Apache-2.0
#include "engine/elastic.hpp"

#include <algorithm>

#include "engine/attempt.hpp"

namespace tranche::engine {
namespace {

constexpr Duration kWipePatience = std::chrono::minutes(1);

// Whoever it was freed for cannot have it while anything on the device is not wiped.
bool is_owed_to_another(const State& state, const Lease& lease, const Device& device) {
  const Job* next = state.job(lease.promised_to);
  return next != nullptr && next->state == JobState::kPending && !device.record.owed.empty() &&
         tenant_of(state, next->owner) != lease.tenant;
}

bool is_being_wiped(const State& state, const Lease& lease) {
  if (lease.holds_slices()) return true;
  return lease.left && std::any_of(lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) {
           const Device& device = state.devices.at(slice.device);
           return (device.state == DeviceState::kScrubbing && device.record.left_by == lease.id) ||
                  is_owed_to_another(state, lease, device);
         });
}

}  // namespace

bool may_be_restarted(const State& state, const Job& job) {
  if (job.state != JobState::kRunning || job.stop_requested || job.leases.empty()) return false;
  const bool whole = std::all_of(job.leases.begin(), job.leases.end(), [&](LeaseId id) {
    const Lease& lease = state.leases.at(id);
    return lease.state == LeaseState::kRunning && !lease.revoked && lease.booking == ClaimId{};
  });
  return whole && saves_itself(job, state.leases.at(job.leases.front()));
}

Instant waits_for_wipes_until(const State& state, const Job& job, Instant now) {
  if (job.reason != EndReason::kResized) return now;
  const bool waits = std::any_of(job.leases.begin(), job.leases.end(), [&](LeaseId id) {
    return is_being_wiped(state, state.leases.at(id));
  });
  return waits ? job.not_before + kWipePatience : now;
}

}  // namespace tranche::engine
