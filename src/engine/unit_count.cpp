// SPDX-License-Identifier: Apache-2.0
// What work has done in its units, and what of that was not charged yet.
#include "engine/fair_units.hpp"
#include "engine/workloads.hpp"

namespace tranche::engine {

std::string units_name(WorkUnit unit) {
  return std::string(wire::name_of(unit)) + "s";
}

void count_units(State& state, const CountedUnits& counted) {
  if (counted.count <= 0) return;
  const JobId first = counted.jobs.front();
  UnsettledUnits& units = state.work.unsettled[first];
  units.job = first;
  units.counts[counted.unit] += counted.count;
  if (const Job* job = state.job(first)) note_units(state, job->owner, counted);
  weigh_units(state, counted);
}

UnitCounts unsettled_units(const State& state, const wire::MeterRecord& record) {
  UnitCounts units = record.units;
  const Lease* lease = state.lease(record.lease);
  if (lease == nullptr || lease->rank != 0) return units;
  if (const auto more = state.work.unsettled.find(lease->job); more != state.work.unsettled.end())
    for (const auto& [name, count] : more->second.counts) units[name] += count;
  return units;
}

void settle_units(State& state, JobId job, const UnitCounts& charged) {
  const auto found = state.work.unsettled.find(job);
  if (found == state.work.unsettled.end() || charged.empty()) return;
  for (const auto& [name, count] : charged)
    if (const auto one = found->second.counts.find(name); one != found->second.counts.end())
      one->second -= count;
  std::erase_if(found->second.counts, [](const auto& entry) { return entry.second <= 0; });
  if (found->second.counts.empty()) state.work.unsettled.erase(found);
}

UnitCounts charged_units(const State& state, JobId job, const UnitCounts& charged) {
  UnitCounts units = charged;
  if (const auto parent = state.index.work->group_of.find(job); parent != state.index.work->group_of.end())
    units.try_emplace(units_name(state.work.groups.at(parent->second).counted_in()));
  if (const auto told = state.work.progress.find(job); told != state.work.progress.end())
    units.try_emplace(units_name(told->second.unit));
  if (state.index.work->service_of.contains(job))
    for (const char* unit : {"requests", "tokens_in", "tokens_out"}) units.try_emplace(unit);
  return units;
}

}  // namespace tranche::engine
