// SPDX-License-Identifier: Apache-2.0
#include "engine/reservation.hpp"

#include <algorithm>

#include "engine/gang_network.hpp"
#include "engine/place_rules.hpp"
#include "engine/schedule.hpp"
#include "engine/slots.hpp"

namespace tranche::engine {
namespace {

bool fits_now(const Capacity& capacity, const Node& node, const policy::Shape& shape) {
  const auto& groups = capacity.groups_of(node.id);
  return std::any_of(groups.begin(), groups.end(), [&](policy::NodeIndex index) {
    return capacity.fleet().fits(index, shape);
  });
}

using Ends = std::vector<std::pair<Instant, const Lease*>>;

// In order; empty where none is before that time.
Ends ends_on(const State& state, const Node& node, Instant before) {
  Ends ends;
  bool any = false;
  for (const LeaseId id : state.index.capacity->leases_on(node.id)) {
    const Lease& lease = state.leases.at(id);
    if (!lease.holds_slices()) continue;
    ends.emplace_back(expected_end(state, lease), &lease);
    any = any || ends.back().first < before;
  }
  if (!any) return {};
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->id) < std::pair(b.first, b.second->id);
  });
  return ends;
}

// When the shape would fit, if that is before then.
std::optional<Instant> free_at(const State& state,
                               const Capacity& capacity,
                               const Node& node,
                               const policy::Shape& shape,
                               Instant before) {
  const Ends ends = ends_on(state, node, before);
  if (ends.empty()) return std::nullopt;
  for (const policy::NodeIndex index : capacity.groups_of(node.id)) {
    if (!capacity.fleet().type_allows(capacity.fleet().spec(index), shape)) continue;
    policy::NodeState after = capacity.fleet().node(index);
    for (const auto& [at, lease] : ends) {
      if (at >= before) break;
      const policy::Placement placement = capacity.placement_of(*lease);
      const Job* job = state.job(lease->job);
      if (placement.node != index || job == nullptr) continue;
      capacity.fleet().release_from(after, capacity.shape_of(*lease, job->ask), placement);
      if (capacity.fleet().state_fits(after, shape)) return at;
    }
  }
  return std::nullopt;
}

std::optional<Reservation> soonest_nodes(const State& state,
                                         const Capacity& capacity,
                                         Instant now,
                                         const Job& job,
                                         const policy::Shape& shape,
                                         bool some_change_hands) {
  const std::size_t members = std::max(job.ask.nodes, 1U);
  const bool may_fit_now = members > 1 || some_change_hands;
  std::set<NodeId> elsewhere;
  close_elsewhere(state, job, elsewhere);
  close_unreachable(state, job, elsewhere);
  close_forbidden(state, job, now, elsewhere);
  // As many as are wanted, the latest on top: a node that frees no sooner than that needs no closer look.
  std::vector<std::pair<Instant, NodeId>> soonest;
  for (const auto& [id, node] : state.nodes) {
    if (!takes_work(node) || elsewhere.contains(id)) continue;
    const Instant before = soonest.size() < members ? Instant::max() : soonest.front().first;
    const auto at =
        may_fit_now && fits_now(capacity, node, shape) ? now : free_at(state, capacity, node, shape, before);
    if (!at || *at >= before) continue;
    if (soonest.size() == members) {
      std::pop_heap(soonest.begin(), soonest.end());
      soonest.pop_back();
    }
    soonest.emplace_back(*at, id);
    std::push_heap(soonest.begin(), soonest.end());
  }
  if (soonest.size() < members) return std::nullopt;
  Reservation reservation{.job = job.id, .at = soonest.front().first};
  for (const auto& [at, id] : soonest) reservation.nodes.insert(id);
  return reservation;
}

}  // namespace

// What is kept for its last tenant or is being wiped is free by the time that a promise is about.
std::optional<Reservation> reservation_for(
    const State& state, Capacity& capacity, Instant now, const Job& job, const policy::Shape& shape) {
  const std::vector<DeviceId> between = capacity.between_tenants(state);
  capacity.unblock(between);
  auto reservation = soonest_nodes(state, capacity, now, job, shape, !between.empty());
  for (const DeviceId device : between) capacity.bar(state, device, false);
  return reservation;
}

}  // namespace tranche::engine
