// SPDX-License-Identifier: Apache-2.0
// Who gets more than the least that it can do with: members of elastic gangs, and slices that have a range.
// What nobody who waits could use when all had their turn goes to whom it helps.
#include <algorithm>

#include "engine/attempt.hpp"
#include "engine/elastic.hpp"
#include "engine/market_claims.hpp"
#include "engine/pass.hpp"
#include "engine/slice_change.hpp"

namespace tranche::engine {
namespace {

// A slice that was changed is left as it is for so long, or it would breathe with every job that comes and
// goes.
constexpr Duration kChangePause = std::chrono::minutes(1);

}  // namespace

// How many members it has then.
std::uint32_t Pass::add_members(const Started& one) {
  const Job& job = *one.job;
  std::uint32_t members = one.members;
  bar_for(job, one.shape);
  with_own_kept(one.tenant, one.shape, [&] {
    while (members < job.ask.nodes_max && decisions_ < kDecisionsMax && add_member(one, members)) ++members;
    return true;
  });
  unbar();
  if (members > one.members) {
    Ask more = job.ask.resized(members);
    more.instances -= job.ask.instances;
    grown_.push_back({job.owner, std::move(more)});
  }
  return members;
}

bool Pass::add_member(const Started& one, std::uint32_t rank) {
  const Job& job = *one.job;
  if (job.admission != Admission::kWithinQuota ||
      !may_grow(state_, job.owner, job.ask, job.ask.resized(rank + 1), grown_, envelope_.at))
    return false;
  auto place = choose(job, one.shape);
  if (!place) return false;
  capacity_.take(one.shape, *place);
  const std::size_t before = events_.size();
  grant(job, one.tenant, rank, *place);
  if (!append_meters(state_, job, envelope_.at, before, pledges_, events_)) {
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
    --leases_;
    capacity_.release(one.shape, *place);
    return false;
  }
  append_taken_back(state_, envelope_.at, job, place->slices, events_);
  note_use(job, one.shape, *place);
  taken_.push_back({one.shape, std::move(*place)});
  started_milli_[one.tenant] += one.shape.gpu_milli();
  ++decisions_;
  return true;
}

void Pass::extend(const Started& one) {
  const std::uint32_t members = add_members(one);
  if (members > one.members) events_.push_back(JobResized{one.job->id, one.job->owner, members});
}

// Who runs with fewer than it could use is started again with more, one in a pass: it saves its work, and
// finds what is idle now when its turn comes.
void Pass::grow_one() {
  for (const LeaseId id : capacity_.elastic()) {
    const Lease& first = state_.leases.at(id);
    const Job& job = state_.jobs.at(first.job);
    if (job.ask.nodes >= job.ask.nodes_max || !may_be_restarted(state_, job)) continue;
    const Instant from = first.granted + state_.settings.minimum_run;
    if (from > envelope_.at) {
      look_again_ = std::min(look_again_, from);
      continue;
    }
    const auto shape = capacity_.shape_of(job.ask, trust_group(state_, first.tenant));
    if (!shape) continue;
    const std::size_t before = events_.size();
    const std::uint64_t leases_before = leases_;
    const std::uint32_t members = add_members({&job, first.tenant, *shape, job.ask.nodes});
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
    leases_ = leases_before;
    if (members == job.ask.nodes) continue;
    for (const LeaseId member : job.leases)
      events_.push_back(revocation(
          state_,
          state_.leases.at(member),
          EndReason::kResized,
          "there is room for " + std::to_string(members) + " workers; it goes on from its checkpoint",
          job.id));
    return;
  }
}

// The largest slice that its devices, its quota and its money have room for now; nothing: as it is.
std::optional<Ask> Pass::larger(const Job& job,
                                const policy::Shape& shape,
                                const policy::Placement& placement) {
  if (job.admission != Admission::kWithinQuota || job.ask.is_largest()) return std::nullopt;
  const policy::NodeState& node = capacity_.fleet().node(placement.node);
  for (int part = kResizeParts; part > 0; --part) {
    const Ask more = part_of_range(job.ask, largest(job.ask), part);
    policy::Shape beyond = shape;
    beyond.cpu_milli = beyond.memory_mib = 0;
    beyond.milli = static_cast<std::int32_t>(more.milli_each - job.ask.milli_each);
    beyond.vram = more.vram_each - job.ask.vram_each;
    if (beyond.milli == 0 && beyond.vram == 0) break;
    if (!capacity_.fleet().fits_at(node, beyond, placement)) continue;
    if (may_grow(state_, job.owner, job.ask, more, grown_, envelope_.at)) return more;
  }
  return std::nullopt;
}

// For the rest of the pass, as a slice beside its own.
void Pass::take_more(const Job& job, const policy::Shape& shape, const Place& place, const Ask& more) {
  policy::Shape beyond = shape;
  beyond.cpu_milli = beyond.memory_mib = 0;
  beyond.milli = static_cast<std::int32_t>(more.milli_each - job.ask.milli_each);
  beyond.vram = more.vram_each - job.ask.vram_each;
  capacity_.take(beyond, place);
  taken_.push_back({beyond, place});
  Ask grown = more;
  grown.milli_each -= job.ask.milli_each;
  grown.vram_each -= job.ask.vram_each;
  grown.instances = job.ask.instances;
  grown_.push_back({job.owner, std::move(grown)});
}

// One that starts in this pass begins as large as there is room for.
void Pass::enlarge(const Started& one) {
  const Job& job = *one.job;
  const auto more = larger(job, one.shape, one.place.placement);
  if (!more) return;
  auto& granted = std::get<LeaseGranted>(events_[one.event]);
  MeterOpened* meter =
      one.event + 1 < events_.size() ? std::get_if<MeterOpened>(&events_[one.event + 1]) : nullptr;
  if (meter != nullptr && meter->plan.lease == granted.id) {
    MeterPlan plan = meter->plan;
    plan.milli = std::int64_t{more->milli_each} * static_cast<std::int64_t>(granted.slices.size());
    const Money held = most_for(state_, plan, envelope_.at, ahead_of(state_, plan, envelope_.at));
    const Money beyond{std::max<std::int64_t>(held.micros - meter->held.micros, 0)};
    if (pledges_.problem(meter->account, plan.party, job.id, beyond)) return;
    pledges_.take(meter->account, plan.party, job.id, beyond);
    meter->plan = std::move(plan);
    meter->held.micros += beyond.micros;
  }
  take_more(job, one.shape, one.place, *more);
  for (Slice& slice : granted.slices) {
    slice.milli = static_cast<std::uint16_t>(more->milli_each);
    slice.vram = more->vram_each;
  }
  events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(one.event),
                 JobResliced{job.id, job.owner, more->milli_each, more->vram_each});
}

// Those that run become larger where they are.
void Pass::grow_slices() {
  for (const LeaseId id : capacity_.resizable()) {
    const Lease& lease = state_.leases.at(id);
    const Job& job = state_.jobs.at(lease.job);
    const bool idle = !lease.change && lease.parking == Parking::kNone && !lease.revoked &&
                      lease.booking == ClaimId{} && !job.ask.is_largest();
    if (!idle || !may_resize(state_, job, lease)) continue;
    if (const Instant from = std::max(lease.changed, lease.started) + kChangePause; from > envelope_.at) {
      look_again_ = std::min(look_again_, from);
      continue;
    }
    const policy::Shape shape = capacity_.shape_of(lease, job.ask);
    bar_for(job, shape);
    const Place place{.node = lease.node, .placement = capacity_.placement_of(lease), .slices = lease.slices};
    const bool closed = closed_to(job, shape).contains(lease.node);
    const auto more = closed ? std::nullopt : larger(job, shape, place.placement);
    const auto meter = state_.meters.find(id);
    bool funded = true;
    if (more && meter != state_.meters.end()) {
      MeterPlan plan = meter->second.plan;
      plan.milli = std::int64_t{more->milli_each} * static_cast<std::int64_t>(lease.slices.size());
      const Money held = most_for(state_, plan, envelope_.at, ahead_of(state_, plan, envelope_.at));
      const Money beyond{std::max<std::int64_t>(held.micros - meter->second.held.micros, 0)};
      funded = !pledges_.problem(meter->second.account, plan.party, job.id, beyond);
    }
    if (more && funded) {
      take_more(job, shape, place, *more);
      events_.push_back(JobResliced{job.id, job.owner, more->milli_each, more->vram_each});
      events_.push_back(change_asked(state_,
                                     lease,
                                     {static_cast<std::uint16_t>(more->milli_each), more->vram_each, {}},
                                     JobId{},
                                     "there is room for a larger slice"));
      ++decisions_;
    }
    unbar();
    if (decisions_ >= kDecisionsMax) return;
  }
}

}  // namespace tranche::engine
