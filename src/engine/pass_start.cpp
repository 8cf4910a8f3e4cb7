// SPDX-License-Identifier: Apache-2.0
// Where a job goes whose turn it is, and the lease that it gets.
#include <algorithm>
#include <utility>

#include "engine/attempt.hpp"
#include "engine/fabric.hpp"
#include "engine/gang_network.hpp"
#include "engine/market_claims.hpp"
#include "engine/pass.hpp"
#include "engine/place_rules.hpp"
#include "engine/tempo.hpp"

namespace tranche::engine {
namespace {

constexpr int kUnfundedMax = 16;     // Jobs of a kind that a pass looks at in vain for want of money.
constexpr int kKeptWaitingMax = 16;  // Likewise, for the sake of demand to come.
constexpr std::size_t kPlacesTried = 4;

// Beside what runs on the device, and beside what this pass has put there already.
bool meets_other(const State& state, Tempo tempo, DeviceId device, const Events& events) {
  if (clashes(state, tempo, device)) return true;
  return std::any_of(events.begin(), events.end(), [&](const Event& event) {
    const auto* granted = std::get_if<LeaseGranted>(&event);
    if (granted == nullptr || granted->slices.empty() || granted->slices.front().device != device)
      return false;
    const Tempo other = tempo_of(state, state.jobs.at(granted->job));
    return other != Tempo::kEither && other != tempo;
  });
}

}  // namespace

void Pass::bar_for(const Job& job, const policy::Shape& shape) {
  barred_ = barred_devices(state_, envelope_.at, job, shape, placed_);
  preparation_.append_kept(job, shape, barred_);
  closed_ = barred_;
  for (Barred& one : closed_) capacity_.bar(state_, one);
}

void Pass::unbar() {
  for (const Barred& one : closed_) capacity_.unbar(state_, one);
}

void Pass::offer(const Turn& turn) {
  if (turn.returns != LeaseId{}) return bring_back(turn);
  const Job& job = state_.jobs.at(turn.job);
  // Others of its tenant have had the rest of the guarantee meanwhile.
  if ((turn.tier >= 0 || turn.tier == kBesideTier) && !turn.borrows && would_borrow(turn.key.tenant, job))
    return turns_.push(turn_of(turn.key, job));
  if (waits_for_demand(turn, job)) {
    if (++kept_waiting_[turn.key] < kKeptWaitingMax) push_after(turn);
    return;
  }
  const auto shape = capacity_.shape_of(job.ask, trust_group(state_, turn.key.tenant));
  if (!shape) return push_after(turn);
  let_mover_in(job.id);
  bar_for(job, *shape);
  unfunded_ = false;
  const bool was_promised = promised_.contains(job.id);
  try_to_start(turn, job, *shape);
  unbar();
  own_place_.reset();
  if (was_promised) give_up_freed(job.id);
  if (!unfunded_ || ++unfunded_by_key_[turn.key] < kUnfundedMax) push_after(turn);
}

void Pass::try_to_start(const Turn& turn, const Job& job, const policy::Shape& shape) {
  const PartyId tenant = turn.key.tenant;
  if (capacity_.waiting_kinds().may_fit(turn.key.kind) || own_place_) {
    if (start(job, tenant, shape) || unfunded_) return;
    // Whoever is first would have what is kept for another: then it is wiped for him.
    if (!passed_over_ && !capacity_.kept().empty())
      passed_over_ = with_kept_open([&] { return capacity_.choose(shape).has_value(); });
    // Refused by a promise to somebody else, it may fit as soon as that is kept. That there is no room for
    // all of a gang says nothing about one job of its members' shape.
    if (job.ask.nodes <= 1) {
      if (was_closed_) {
        note_refused_stay(turn.key.kind, job);
      } else {
        capacity_.waiting_kinds().refused(turn.key.kind);
      }
    }
  }
  if (job.ask.nodes > 1 && promised_.contains(job.id)) hold_for_gang(job, shape);
  if (may_reclaim(turn.key, job) && !share_promise(job, tenant, shape)) {
    tried_[claim_of(turn.key, job)].push_back({job.ask.priority, job.ask.nodes});
    reclaim(job, tenant, shape);
  }
  if (!reserved_) reserved_ = reservation_for(state_, capacity_, envelope_.at, job, shape);
  if (!blocked_ && job.ask.nodes <= 1 && !is_bound(job) && !promised_.contains(job.id)) blocked_ = turn;
}

bool Pass::start(const Job& job, PartyId tenant, const policy::Shape& shape) {
  return with_own_kept(tenant, shape, [&] { return start_all(job, tenant, shape); });
}

// A gang stays on one fabric where one has room for all of it, and where it says so on nothing else.
std::vector<Place> Pass::take_places(const Job& job, const policy::Shape& shape, std::uint32_t members) {
  if (members > 1 && job.ask.topology != wire::Topology::kAny) return take_together(job, shape, members);
  std::vector<Place> anywhere = take_all(job, shape, members);
  if (anywhere.empty() || members == 1) return anywhere;
  for (const Place& place : anywhere) capacity_.release(shape, place);
  auto together = take_together(job, shape, members);
  return together.empty() ? take_all(job, shape, members) : together;
}

std::vector<Place> Pass::take_together(const Job& job, const policy::Shape& shape, std::uint32_t members) {
  for (auto& outside : outside_of(state_, job.ask.topology, shape, members)) {
    outside_ = std::move(outside);
    auto together = take_all(job, shape, members);
    outside_.clear();
    if (!together.empty()) return together;
  }
  return {};
}

std::vector<Place> Pass::take_what_fits(const Job& job, const policy::Shape& shape, std::uint32_t members) {
  std::vector<Place> places;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    auto place = choose(job, shape);
    if (!place) break;
    capacity_.take(shape, *place);
    places.push_back(std::move(*place));
  }
  return places;
}

std::vector<Place> Pass::take_all(const Job& job, const policy::Shape& shape, std::uint32_t members) {
  std::vector<Place> places = take_what_fits(job, shape, members);
  if (places.size() == members) return places;
  for (const Place& place : places) capacity_.release(shape, place);
  return {};
}

// All members of the gang, or none.
bool Pass::start_all(const Job& job, PartyId tenant, const policy::Shape& shape) {
  const std::uint32_t members = std::max(job.ask.nodes, 1U);
  std::vector<Place> places = take_places(job, shape, members);
  if (places.empty()) return false;
  const std::size_t before = events_.size();
  const std::uint64_t leases_before = leases_;
  for (std::uint32_t rank = 0; rank < members; ++rank) grant(job, tenant, rank, places[rank]);
  if (!append_meters(state_, job, envelope_.at, before, pledges_, events_)) {
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
    leases_ = leases_before;
    unfunded_ = true;
    for (const Place& place : places) capacity_.release(shape, place);
    return false;
  }
  const Started started{&job, tenant, shape, members, before, places.front()};
  for (Place& place : places) {
    append_taken_back(state_, envelope_.at, job, place.slices, events_);
    note_use(job, shape, place);
    taken_.push_back({shape, std::move(place)});
  }
  started_milli_[tenant] += shape.gpu_milli() * members;
  preparation_.started(job);
  decisions_ += static_cast<int>(members);
  promised_.erase(job.id);  // It has what was freed; the rest is for everybody.
  if (job.ask.is_elastic()) started_elastic_.push_back(started);
  if (job.ask.range) started_resizable_.push_back(started);
  return true;
}

// Nodes that were promised to others or reserved for them, added to those that are closed already.
std::set<NodeId> Pass::kept_for_others(const Job& job, std::set<NodeId> closed) const {
  for (const auto& [owner, nodes] : promised_)
    if (owner != job.id) closed.insert(nodes.begin(), nodes.end());
  if (const auto own = promised_.find(job.id); own != promised_.end())
    for (const NodeId node : own->second) closed.erase(node);  // What is freed there is for both.
  const bool ends_in_time =
      job.ask.time > Duration{} && reserved_ && envelope_.at + job.ask.time <= reserved_->at;
  if (reserved_ && reserved_->job != job.id && !ends_in_time)
    closed.insert(reserved_->nodes.begin(), reserved_->nodes.end());
  return closed;
}

// Where this job may not go while it looks.
std::set<NodeId> Pass::closed_to(const Job& job, const policy::Shape& shape) const {
  std::set<NodeId> closed = kept_for_others(job, outside_);
  if (shape.devices == 0) {
    const Instant end = job.ask.time == Duration{} ? kFarFuture : envelope_.at + job.ask.time;
    closed.merge(kept_free(state_, envelope_.at, end));
  }
  close_elsewhere(state_, job, closed);
  close_unreachable(state_, job, closed);
  close_forbidden(state_, job, envelope_.at, closed);
  return closed;
}

void Pass::close_nodes(const std::set<NodeId>& nodes, bool closed) {
  for (const NodeId node : nodes)
    if (takes_work(state_.nodes.at(node))) capacity_.close(node, closed);
}

std::optional<Place> Pass::choose(const Job& job, const policy::Shape& shape) {
  const std::set<NodeId> closed = closed_to(job, shape);
  std::vector<DeviceId> blocked;
  capacity_.block_restricted(job.ask.preemptible, shape.shares(), blocked);
  capacity_.block_owed(tenant_of(state_, job.owner), blocked);
  was_closed_ = !closed.empty() || !barred_.empty() || !blocked.empty() || !capacity_.kept().empty() ||
                !movers_.empty();
  // What was kept for it may be booked since.
  auto place = std::exchange(own_place_, std::nullopt);
  if (place &&
      !capacity_.fleet().fits_at(capacity_.fleet().node(place->placement.node), shape, place->placement))
    place.reset();
  if (!place) {
    close_nodes(closed, true);
    place = choose_beside_its_like(job, shape);
    close_nodes(closed, false);
  }
  capacity_.unblock(blocked);
  return place;
}

// Short and long work on one device keep it from ever being free: a share goes beside its like where one of
// the first few places that would do is such.
std::optional<Place> Pass::choose_beside_its_like(const Job& job, const policy::Shape& shape) {
  auto first = capacity_.choose(shape, job.ask);
  if (!first || !shape.shares() || shape.devices != 1) return first;
  const Tempo tempo = tempo_of(state_, job);
  if (tempo == Tempo::kEither) return first;
  std::vector<DeviceId> passed_over;
  std::optional<Place> place = first;
  while (place && meets_other(state_, tempo, place->slices.front().device, events_) &&
         passed_over.size() < kPlacesTried) {
    passed_over.push_back(place->slices.front().device);
    capacity_.bar(state_, passed_over.back(), true);
    place = capacity_.choose(shape, job.ask);
  }
  for (const DeviceId device : passed_over) capacity_.bar(state_, device, false);
  for (const Barred& one : barred_)  // What is booked stays closed.
    if (one.slots == kAllSlots) capacity_.bar(state_, one.device, true);
  const bool better = place && !meets_other(state_, tempo, place->slices.front().device, events_);
  return better ? place : first;
}

// What later jobs of this pass must leave room for beside what is booked or offered.
void Pass::note_use(const Job& job, const policy::Shape& shape, const Place& place) {
  if (job.ask.preemptible || (state_.index.calendar->empty() && state_.market.pieces_of.empty())) return;
  const Instant end = job.ask.time == Duration{} ? kFarFuture : envelope_.at + job.ask.time;
  for (const Slice& slice : place.slices)
    placed_.emplace(
        slice.device,
        PassingUse{use_of(state_.devices.at(slice.device), job.ask, shape.trust_group, slice), end});
}

void Pass::grant(const Job& job, PartyId tenant, std::uint32_t rank, const Place& place) {
  ++leases_;
  LeaseGranted granted = grant_for(state_, job, rank, leases_);
  granted.node = place.node;
  granted.tenant = tenant;
  granted.trust_group = trust_group(state_, tenant);
  granted.slices = place.slices;
  granted.why = reason_of(job, tenant);
  events_.push_back(std::move(granted));
}

std::int64_t Pass::started_by(PartyId tenant) const {
  const auto started = started_milli_.find(tenant);
  return started == started_milli_.end() ? 0 : started->second;
}

std::string Pass::reason_of(const Job& job, PartyId tenant) const {
  if (promised_.contains(job.id)) return "what it waited for was freed";
  if (is_due(tenant, job)) return "within its guarantee";
  return "idle capacity";
}

}  // namespace tranche::engine
