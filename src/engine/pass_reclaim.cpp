// SPDX-License-Identifier: Apache-2.0
// Who makes way for a job, who goes on elsewhere, and who comes back to the place that he had to leave.
#include <algorithm>
#include <utility>

#include "engine/attempt.hpp"
#include "engine/fabric.hpp"
#include "engine/moves.hpp"
#include "engine/pass.hpp"
#include "engine/room_trial.hpp"
#include "engine/slice_change.hpp"

namespace tranche::engine {
namespace {

// Of all ways one, so that a gang that stands in several is told once.
Victims together(const std::vector<Victims>& ways) {
  Victims all = ways.front();
  for (auto way = ways.begin() + 1; way != ways.end(); ++way)
    all.victims.insert(all.victims.end(), way->victims.begin(), way->victims.end());
  return all;
}

struct Asked {
  Victim victim{};
  JobId promised_to{};
};

std::optional<Asked> asked_by(const Event& event) {
  if (const auto* revoked = std::get_if<LeaseRevoked>(&event))
    return Asked{{revoked->id, Yield::kStop}, revoked->promised_to};
  if (const auto* parked = std::get_if<LeaseParkAsked>(&event))
    return Asked{{parked->id, Yield::kPark}, parked->promised_to};
  if (const auto* changed = std::get_if<SliceChangeAsked>(&event))
    return Asked{{changed->id, Yield::kResize, changed->milli, changed->vram}, changed->promised_to};
  return std::nullopt;
}

constexpr Duration kReturnRetry = std::chrono::seconds(30);  // After a return that the node could not do.

// Parked work waits for its own place as long as starting again elsewhere would cost it; whoever waits that
// long loses at most twice what was best.
Duration patience_of(const State& state, const Lease& lease) {
  const Instant saved = std::max({lease.granted, lease.started, lease.checkpoint});
  return std::max(state.settings.minimum_run, lease.parked - saved - lease.parked_for);
}

}  // namespace

const Job* Pass::waiting(JobId id) const {
  const Job* job = state_.job(id);
  return job != nullptr && job->state == JobState::kPending ? job : nullptr;
}

// What is being freed for others of its tenant may be enough for it, too: then nobody else is asked.
bool Pass::share_promise(const Job& job, PartyId tenant, const policy::Shape& shape) {
  if (job.ask.nodes > 1 || !is_due(tenant, job)) return false;
  std::set<NodeId> nodes;
  for (const auto& [id, promised] : promised_) {
    const Job* other = waiting(id);
    if (other != nullptr && tenant_of(state_, other->owner) == tenant)
      nodes.insert(promised.begin(), promised.end());
  }
  if (nodes.empty()) return false;
  promised_[job.id] = nodes;
  for (const NodeId node : closed_to(job, shape)) nodes.erase(node);
  promised_.erase(job.id);
  for (const NodeId node : nodes) {
    if (!fits_beside_promised(node, shape)) continue;
    promised_[job.id].insert(node);
    return true;
  }
  return false;
}

bool Pass::fits_beside_promised(NodeId node, const policy::Shape& shape) const {
  for (const policy::NodeIndex index : capacity_.groups_of(node)) {
    RoomTrial trial(state_, index, barred_);
    if (foresee(trial, node, index) && trial.fits(shape)) return true;
  }
  return false;
}

// When all who were asked to leave it have done so, and all for whom they do are there; false: there is no
// room for all of those.
bool Pass::foresee(RoomTrial& trial, NodeId node, policy::NodeIndex index) const {
  if (!is_promised(node)) return true;
  const auto stands_there = [&](const Lease& lease) {
    return lease.node == node && capacity_.placement_of(lease).node == index;
  };
  for (const LeaseId id : capacity_.promising()) {
    const Lease* lease = state_.lease(id);
    if (lease == nullptr || lease->node != node || waiting(lease->promised_to) == nullptr) continue;
    if (!lease->holds_slices() || stands_there(*lease)) trial.leave(*lease);
  }
  for (const Event& event : events_) {  // Those who were asked a moment ago, too.
    const auto asked = asked_by(event);
    if (!asked || waiting(asked->promised_to) == nullptr) continue;
    if (stands_there(state_.leases.at(asked->victim.lease))) trial.yield(asked->victim);
  }
  bool all_there = true;
  for (const auto& [id, nodes] : promised_) {
    const Job* other = waiting(id);
    if (other == nullptr || !nodes.contains(node)) continue;
    const auto its = capacity_.shape_of(other->ask, trust_group(state_, tenant_of(state_, other->owner)));
    if (!its || !capacity_.fleet().type_allows(capacity_.fleet().spec(index), *its)) continue;
    if (!trial.take(*its)) all_there = false;
    for (std::uint32_t rank = 1; rank < other->ask.nodes && trial.take(*its); ++rank) continue;
  }
  return all_there;
}

// Who gives way already, before this pass or in it.
const GivenUp& Pass::asked() {
  if (!asked_) asked_ = GivenUp::by_those_asked(state_);
  return *asked_;
}

// The job's own right, or its rank above work that may be stopped, brings capacity back.
void Pass::reclaim(const Job& job, PartyId tenant, const policy::Shape& shape) {
  const Claimant claimant{.job = job.id,
                          .tenant = tenant,
                          .priority = job.ask.priority,
                          .entitled = is_due(tenant, job),
                          .barred = barred_};
  // Nobody has anything that it could have.
  if (!claimant.entitled && !capacity_.runs_preemptible() && capacity_.resizable().empty()) return;
  if (job.ask.nodes > 1 ? make_room_for_gang(job, claimant, shape) : make_room_for_one(claimant, shape)) {
    ++reclaims_;
  } else if ((claimant.entitled || capacity_.runs_preemptible()) && !std::exchange(saw_the_spared_, true)) {
    look_again_ = std::min(look_again_, next_interruptible(state_, envelope_.at));
  }
}

// What is free beside those who leave for others is for those others, too.
bool Pass::make_room_for_one(Claimant claimant, const policy::Shape& shape) {
  claimant.foresee = [this](RoomTrial& trial, NodeId node, policy::NodeIndex index) {
    static_cast<void>(foresee(trial, node, index));
  };
  const auto plan = cheapest_victims(state_, envelope_.at, claimant, shape, asked());
  if (plan) make_way(claimant, *plan);
  return plan.has_value();
}

// Members that fit have their places; for each of the others room is made on a node of its own. Where all of
// it must be in one place, every such place is tried.
bool Pass::make_room_for_gang(const Job& job, const Claimant& claimant, const policy::Shape& shape) {
  std::vector<std::set<NodeId>> places(1);
  if (job.ask.topology != wire::Topology::kAny) places = outside_of(state_, job.ask.topology, shape, 0);
  for (std::set<NodeId>& outside : places) {
    outside_ = std::move(outside);
    std::vector<Place> held = take_what_fits(job, shape, job.ask.nodes);
    const auto ways = cheapest_victims_of_gang(
        state_, envelope_.at, claimant, shape, job.ask.nodes - held.size(), closed_to(job, shape), asked());
    outside_.clear();
    if (ways) {
      make_way(claimant, together(*ways));
      for (const Victims& way : *ways) promised_[job.id].insert(way.node);
      for (Place& place : held) taken_.push_back({shape, std::move(place)});
      return true;
    }
    for (const Place& place : held) capacity_.release(shape, place);
  }
  return false;
}

// While the last of its places are freed, a gang keeps those that it could have already.
void Pass::hold_for_gang(const Job& job, const policy::Shape& shape) {
  for (Place& place : take_what_fits(job, shape, job.ask.nodes)) taken_.push_back({shape, std::move(place)});
}

// The first that must wait gets its place from work that can go on elsewhere. After all others had their
// turn, so that a move takes only what nobody else could use.
void Pass::make_room_by_moves() {
  const Job& job = state_.jobs.at(blocked_->job);
  const auto shape = capacity_.shape_of(job.ask, trust_group(state_, blocked_->key.tenant));
  if (!shape || shape->devices == 0 || promised_.contains(job.id)) return;
  bar_for(job, *shape);
  const Claimant claimant{
      .job = job.id, .tenant = blocked_->key.tenant, .priority = job.ask.priority, .barred = barred_};
  // Whoever moves to what is kept for others takes it from them, and the job, which may not go there either,
  // gains nothing that a move is worth.
  const std::set<NodeId> kept = kept_for_others(job, {});
  close_nodes(kept, true);
  const auto plan =
      cheapest_moves(state_, capacity_, envelope_.at, claimant, *shape, asked(), closed_to(job, *shape));
  close_nodes(kept, false);
  if (plan) make_way(claimant, *plan);
  unbar();
}

void Pass::make_way(const Claimant& claimant, const Victims& plan) {
  Events made = ways_made(state_, claimant, plan);
  for (const Event& event : made) asked_->add(state_, event);
  append(events_, std::move(made));
  promised_[claimant.job].insert(plan.node);
  decisions_ += static_cast<int>(plan.victims.size());
}

// Whoever leaves for another's sake has the place that was found for him until he is there.
void Pass::keep_places_of_movers() {
  std::map<JobId, NodeId> going = capacity_.moved_to();
  for (const LeaseId id : capacity_.promising())
    if (const Lease* lease = state_.lease(id); lease != nullptr && lease->goes_to != NodeId{})
      going.emplace(lease->job, lease->goes_to);
  for (const auto& [id, node] : going)
    if (const Job* job = state_.job(id)) keep_place(*job, node);
}

void Pass::keep_place(const Job& job, NodeId node) {
  // It waits, or is about to.
  if (is_over(job.state) || job.stop_requested || job.paused || job.leases.empty()) return;
  const Lease& lease = state_.leases.at(job.leases.front());
  if (job.state != JobState::kPending && !lease.revoked) return;
  const auto shape = capacity_.shape_of(job.ask, lease.trust_group);
  if (!shape) return;
  for (const policy::NodeIndex index : capacity_.groups_of(node)) {
    const auto placement = capacity_.fleet().tightest(index, *shape);
    if (!placement || (is_promised(node) && takes_free_device(*placement))) continue;
    Place place = capacity_.place_at(*shape, *placement);
    capacity_.take(*shape, place);
    movers_.emplace(job.id, Taken{*shape, std::move(place)});
    return;
  }
}

bool Pass::is_promised(NodeId node) const {
  return std::any_of(
      promised_.begin(), promised_.end(), [&](const auto& one) { return one.second.contains(node); });
}

bool Pass::takes_free_device(const policy::Placement& placement) const {
  const policy::NodeState& node = capacity_.fleet().node(placement.node);
  for (int i = 0; i < node.device_count; ++i) {
    const bool taken = ((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) != 0;
    if (taken && node.devices[static_cast<std::size_t>(i)].free()) return true;
  }
  return false;
}

void Pass::let_mover_in(JobId job) {
  const auto kept = movers_.find(job);
  if (kept == movers_.end()) return;
  capacity_.release(kept->second.shape, kept->second.place);
  own_place_ = std::move(kept->second.place);
  movers_.erase(kept);
}

bool Pass::fits_back(const Job& job, const Lease& lease, const policy::Shape& shape) {
  if (closed_to(job, shape).contains(lease.node)) return false;
  for (const Slice& slice : lease.slices) {
    const auto owed = capacity_.owed().find(slice.device);
    if (owed != capacity_.owed().end() && owed->second != lease.tenant) return false;
  }
  const policy::Placement placement = capacity_.placement_of(lease);
  return capacity_.fleet().fits_at(capacity_.fleet().node(placement.node), shape, placement);
}

// A parked job's turn: on its own devices when they are free, and after a while elsewhere.
void Pass::bring_back(const Turn& turn) {
  const Lease& lease = state_.leases.at(turn.returns);
  const Job& job = state_.jobs.at(turn.job);
  if (lease.changed > lease.parked && envelope_.at - lease.changed < kReturnRetry) {
    look_again_ = std::min(look_again_, lease.changed + kReturnRetry);
    return;
  }
  policy::Shape shape = capacity_.shape_of(lease, job.ask);
  bar_for(job, shape);
  const policy::Shape whole = shape;
  shape.cpu_milli = shape.memory_mib = 0;  // Its processes are on the node.
  if (fits_back(job, lease, shape)) {
    Place place{.node = lease.node, .placement = capacity_.placement_of(lease), .slices = lease.slices};
    capacity_.take(shape, place);
    note_use(job, shape, place);
    taken_.push_back({shape, std::move(place)});
    started_milli_[lease.tenant] += lease.gpu_milli();
    events_.push_back(LeaseReturned{lease.id, lease.owner});
    ++decisions_;
  } else {
    go_on_elsewhere(job, lease, whole);
  }
  unbar();
}

void Pass::go_on_elsewhere(const Job& job, const Lease& lease, const policy::Shape& shape) {
  const Instant from = lease.parked + patience_of(state_, lease);
  if (from > envelope_.at) {
    look_again_ = std::min(look_again_, from);
    return;
  }
  const auto place = choose(job, shape);
  if (!place) return;
  LeaseRevoked revoked = revocation(state_,
                                    lease,
                                    EndReason::kPreempted,
                                    "there is room elsewhere; it goes on from its checkpoint",
                                    job.id);
  revoked.way = RevokeWay::kKill;  // Off its devices it can save nothing.
  revoked.goes_to = place->node;
  events_.push_back(std::move(revoked));
  ++decisions_;
}

}  // namespace tranche::engine
