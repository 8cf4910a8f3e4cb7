// SPDX-License-Identifier: Apache-2.0
#include "engine/tempo.hpp"

#include <algorithm>

namespace tranche::engine {
namespace {

constexpr Duration kShortBelow = std::chrono::minutes(30);
constexpr Duration kLongFrom = std::chrono::hours(4);

Duration usual_stay(const State& state, const Job& job) {
  const Duration usual =
      state.index.demand->usual_run({job.ask.priority, tenant_of(state, job.owner), job.ask.kind});
  if (usual == Duration{}) return job.ask.time;
  return job.ask.time == Duration{} ? usual : std::min(usual, job.ask.time);
}

}  // namespace

Tempo tempo_of(const State& state, const Job& job) {
  const Duration stay = usual_stay(state, job);
  if (stay == Duration{}) return Tempo::kEither;  // Nothing is known of it.
  if (stay <= kShortBelow) return Tempo::kShort;
  return stay >= kLongFrom ? Tempo::kLong : Tempo::kEither;
}

bool clashes(const State& state, Tempo tempo, DeviceId id) {
  const Capacity& capacity = *state.index.capacity;
  for (const LeaseId lease_id : capacity.leases_on(state.devices.at(id).node)) {
    const Lease& lease = state.leases.at(lease_id);
    const Job* job = state.job(lease.job);
    if (job == nullptr || !lease.live() || !lease.holds_slices()) continue;
    const bool here = std::any_of(
        lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) { return slice.device == id; });
    if (!here) continue;
    const Tempo other = tempo_of(state, *job);
    if (other != Tempo::kEither && other != tempo) return true;
  }
  return false;
}

}  // namespace tranche::engine
