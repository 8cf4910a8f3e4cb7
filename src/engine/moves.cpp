// SPDX-License-Identifier: Apache-2.0
#include "engine/moves.hpp"

#include <utility>

#include "engine/place_rules.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kWaysTried = 4;

bool may_move(const State& state, const Claimant& claimant, const Job& job) {
  return job.ask.preemptible && job.ask.priority <= claimant.priority && job.leases.size() == 1 &&
         job.ask.volumes.empty() && !has_place_rules(state, job.owner);
}

// A trial on the capacity: what it takes and gives back is undone when it goes out of scope.
class Rehearsal {
 public:
  Rehearsal(const State& state, Capacity& capacity) : state_(state), capacity_(capacity) {}
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  ~Rehearsal() {
    for (auto place = placed_.rbegin(); place != placed_.rend(); ++place)
      capacity_.release(place->first, place->second);
    for (const Barred& one : closed_) capacity_.unbar(state_, one);
    for (auto place = lifted_.rbegin(); place != lifted_.rend(); ++place)
      capacity_.take(place->first, place->second);
  }

  void lift(const policy::Shape& shape, Place place) {
    capacity_.release(shape, place);
    lifted_.emplace_back(shape, std::move(place));
  }
  // Slots that are closed to who looks stay so when whoever was on them is lifted.
  void close_lifted(const std::vector<Barred>& barred) {
    for (Barred one : barred) {
      if (one.slots == kAllSlots) continue;  // Nobody who stands there is lifted.
      capacity_.bar(state_, one);
      closed_.push_back(one);
    }
  }
  std::optional<NodeId> place(const policy::Shape& shape) {
    auto place = capacity_.choose(shape);
    if (!place) return std::nullopt;
    capacity_.take(shape, *place);
    placed_.emplace_back(shape, *place);
    return place->node;
  }
  [[nodiscard]] const std::vector<std::pair<policy::Shape, Place>>& lifted() const { return lifted_; }

 private:
  const State& state_;
  Capacity& capacity_;
  std::vector<Barred> closed_;
  std::vector<std::pair<policy::Shape, Place>> lifted_;
  std::vector<std::pair<policy::Shape, Place>> placed_;
};

// Whether one of its devices is closed, to the job that looks or to everybody.
bool stands_closed(const Capacity& capacity, const policy::Placement& placement) {
  const policy::NodeState& node = capacity.fleet().node(placement.node);
  for (int i = 0; i < node.device_count; ++i) {
    const bool own = ((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) != 0;
    if (own && node.devices[static_cast<std::size_t>(i)].blocked) return true;
  }
  return false;
}

// The job first, then whoever made room for it: where each of them goes on is kept for it.
bool all_find_room(const State& state,
                   Capacity& capacity,
                   Victims& plan,
                   const Claimant& claimant,
                   const policy::Shape& shape) {
  Rehearsal rehearsal(state, capacity);
  for (const Victim& victim : plan.victims) {
    const Lease& lease = state.leases.at(victim.lease);
    const policy::Placement placement = capacity.placement_of(lease);
    if (stands_closed(capacity, placement)) return false;  // It could not be put back after the trial.
    rehearsal.lift(capacity.shape_of(lease, state.jobs.at(lease.job).ask),
                   {.node = lease.node, .placement = placement});
  }
  rehearsal.close_lifted(claimant.barred);
  if (rehearsal.place(shape) != plan.node) return false;
  for (std::size_t i = 0; i < plan.victims.size(); ++i) {
    const auto node = rehearsal.place(rehearsal.lifted()[i].first);
    if (!node) return false;
    plan.victims[i].goes_to = *node;
  }
  return true;
}

}  // namespace

std::optional<Victims> cheapest_moves(const State& state,
                                      Capacity& capacity,
                                      Instant now,
                                      const Claimant& claimant,
                                      const policy::Shape& shape,
                                      const GivenUp& asked,
                                      const std::set<NodeId>& closed) {
  if (!capacity.runs_preemptible()) return std::nullopt;
  const auto movable = [&](const Job& job, const Lease& lease, Yield, std::int64_t) {
    return !asked.names(lease.id) && may_move(state, claimant, job);
  };
  const RoomWish wish{
      .shape = shape, .barred = claimant.barred, .at_most = kMovesMax, .only_stops = true, .closed = closed};
  auto ways = ways_to_make_room(state, now, wish, movable);
  if (ways.size() > kWaysTried) ways.resize(kWaysTried);
  for (Victims& way : ways) {
    if (!all_find_room(state, capacity, way, claimant, shape)) continue;
    way.why = "it goes on elsewhere: its place makes room for work that fits nowhere else";
    return std::move(way);
  }
  return std::nullopt;
}

}  // namespace tranche::engine
