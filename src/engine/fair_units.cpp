// SPDX-License-Identifier: Apache-2.0
#include "engine/fair_units.hpp"

#include <algorithm>

namespace tranche::engine {
namespace {

using std::chrono::seconds;

// The time since it was weighed last no longer counts. Whole seconds, as fair share counts them.
std::int64_t forget_time(Lease& lease, const CountedUnits& counted) {
  const Duration all = counted.at - lease.by_time_from();
  if (all <= Duration{}) return 0;
  const auto forgotten = std::chrono::floor<seconds>(std::min(all, counted.in_place_of));
  // What is longer ago stays as it was counted: by its time.
  lease.weighed += lease.gpu_milli() * std::chrono::floor<seconds>(all - forgotten).count();
  lease.weighed_to = lease.by_time_from() + std::chrono::floor<seconds>(all);
  return lease.gpu_milli() * forgotten.count();
}

}  // namespace

Duration fair_weight(const State& state, std::string_view unit) {
  const auto& weights = state.settings.fair_units;
  for (const auto& [name, weight] : weights)
    if (name == unit) return weight;
  for (const auto& [name, weight] : weights)
    if (is_counted_as(unit, name)) return weight;
  return {};
}

void weigh_units(State& state, const CountedUnits& counted) {
  const Duration weight = fair_weight(state, counted.unit);
  if (weight <= Duration{} || counted.count <= 0) return;
  std::int64_t amount = static_cast<std::int64_t>(
      std::min(Int128{counted.count} * weight.count() / 1000, Int128{INT64_MAX / 4}));
  for (const JobId id : counted.jobs) {
    const Job* job = state.job(id);
    if (job == nullptr) continue;
    for (const LeaseId lease_id : job->leases) {
      Lease& lease = state.leases.at(lease_id);
      if (!lease.live() || lease.gpu_milli() == 0) continue;
      const std::int64_t forgotten = forget_time(lease, counted);
      const std::int64_t added = std::exchange(amount, 0);
      lease.weighed += added;
      state.index.capacity->weigh(lease.tenant, added - forgotten, counted.at);
    }
  }
}

}  // namespace tranche::engine
