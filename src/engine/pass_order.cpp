// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: the order of a pass, and who is not looked at now.
#include <algorithm>
#include <limits>

#include "engine/elastic.hpp"
#include "engine/pass.hpp"
#include "engine/place_rules.hpp"
#include "engine/slots.hpp"
#include "engine/start_window.hpp"
#include "engine/unit_forecast.hpp"

namespace tranche::engine {
namespace {

constexpr int kReclaimsMax = 8;
constexpr int kLookAhead = 256;  // So many of a kind are looked at for one that would stay less long.
constexpr Duration kHurryWithin = std::chrono::hours(2);  // Of the latest start that keeps a deadline.

constexpr std::int32_t kPromisedTier = -5;
constexpr std::int32_t kMoverTier = -3;    // It left for one of those, and has a place.
constexpr std::int32_t kResizedTier = -2;  // It only makes way for a part of what it had.
constexpr std::int32_t kAgedTier = -1;

Duration stay(const Job& job) {
  return job.ask.time == Duration{} ? Duration::max() : job.ask.time;
}

}  // namespace

// Leases that are ending for somebody: their nodes are kept for him. So is what was freed since the last
// pass.
void Pass::find_promises() {
  const auto promise = [&](JobId id, JobId by, NodeId node) {
    const Job* job = state_.job(id);
    if (job == nullptr || (job->state != JobState::kPending && id != by)) return;
    promised_[id].insert(node);
    freeing_for_.insert(tenant_of(state_, job->owner));
  };
  for (const LeaseId id : capacity_.promising())
    if (const Lease* lease = state_.lease(id)) promise(lease->promised_to, lease->job, lease->node);
  for (const auto& [job, nodes] : capacity_.freed_for())
    for (const NodeId node : nodes) promise(job, JobId{}, node);
}

// It had its turn before everybody, or gets none: what was freed for it is of no use to it, and is for
// others.
void Pass::give_up_freed(JobId job) {
  const auto promised = promised_.find(job);
  if (promised == promised_.end()) return;
  promised->second.clear();
  for (const LeaseId id : capacity_.promising())
    if (const Lease* lease = state_.lease(id); lease != nullptr && lease->promised_to == job)
      promised->second.insert(lease->node);
  if (promised->second.empty()) promised_.erase(promised);
}

void Pass::collect() {
  with_kept_open([&] { return capacity_.waiting_kinds().revive(capacity_.fleet()); });
  ranks_ = capacity_.ranks(envelope_.at);
  for (const auto& [key, jobs] : capacity_.waiting()) push_next(key, jobs.begin(), jobs);
  push_parked();
}

void Pass::push_parked() {
  for (const LeaseId id : capacity_.parked()) {
    const Lease& lease = state_.leases.at(id);
    const Job& job = state_.jobs.at(lease.job);
    if (lease.revoked || job.stop_requested) continue;
    const WaitingKey key{.tier = 100 - job.ask.priority, .tenant = lease.tenant, .kind = kNoKind};
    Turn turn = turn_of(key, job);
    turn.returns = id;
    // It left for somebody with more right: whoever waits as urgently goes first, until it is aged.
    if (turn.tier >= 0) {
      turn.borrows = true;
      turn.rank = std::numeric_limits<std::int32_t>::max();
    }
    turns_.push(turn);
  }
}

// False: neither it nor anybody else of its kind.
bool Pass::may_be_tried(const WaitingKey& key, const Job& job) {
  if (key.kind != kNoKind && capacity_.waiting_kinds().may_fit(key.kind)) return true;
  return may_reclaim(key, job);
}

Turn Pass::turn_of(const WaitingKey& key, const Job& job) {
  Turn turn{
      .tier = key.tier, .rank = ranks_[key.tenant], .start_by = start_by(job), .job = job.id, .key = key};
  if (movers_.contains(job.id)) turn.tier = kMoverTier;
  if (promised_.contains(job.id)) turn.tier = kPromisedTier;
  if (turn.tier >= 0 && freeing_for_.contains(key.tenant) && !would_borrow(key.tenant, job))
    turn.tier = kBesideTier;
  if (turn.tier >= 0 && job.reason == EndReason::kResized) turn.tier = kResizedTier;
  // In the order of submission alone, so that its wait is bounded by the work of those who came before it.
  if (turn.tier >= 0 && is_aged(job)) turn = {.tier = kAgedTier, .job = job.id, .key = key};
  turn.borrows = turn.tier >= 0 && would_borrow(key.tenant, job);
  return turn;
}

void Pass::push_next(const WaitingKey& key, Jobs::const_iterator from, const Jobs& jobs) {
  for (int looked = 0; from != jobs.end(); ++from) {
    const Job& job = state_.jobs.at(*from);
    if (job.not_before > envelope_.at || waits_for_window(state_, job) || is_out_of_hours(job)) continue;
    if (const Instant until = waits_for_wipes_until(state_, job, envelope_.at); until > envelope_.at) {
      look_again_ = std::min(look_again_, until);
      continue;
    }
    // It finds no room, and may still ask for what is its own.
    if (stays_too_long(key.kind, job) && !may_reclaim(key, job)) {
      if (++looked == kLookAhead) return;
      continue;
    }
    if (!may_be_tried(key, job) && !movers_.contains(job.id)) {
      give_up_freed(job.id);
      if (!promised_.contains(job.id)) return;
      continue;  // Its place is being freed; the next may ask for one, too.
    }
    turns_.push(turn_of(key, job));
    // The nearest deadline is anywhere in its queue, so all of it takes part.
    if (!key.has_deadline || ++looked == kLookAhead) return;
  }
}

void Pass::push_after(const Turn& turn) {
  if (turn.key.has_deadline || turn.returns != LeaseId{}) return;
  const auto queue = capacity_.waiting().find(turn.key);
  if (queue != capacity_.waiting().end())
    push_next(turn.key, queue->second.upper_bound(turn.job), queue->second);
}

bool Pass::is_aged(const Job& job) const {
  return envelope_.at - job.submitted >= kAgedAfter;
}

bool Pass::is_out_of_hours(const Job& job) {
  if (!job.ask.window) return false;
  const Instant opens = open_span(*job.ask.window, envelope_.at).from;
  if (opens > envelope_.at) capacity_.wake(opens, job.id);
  return opens > envelope_.at;
}

Instant Pass::start_by(const Job& job) const {
  const auto latest = latest_start(state_, job);
  return latest && *latest - envelope_.at <= kHurryWithin ? *latest : kFarFuture;
}

bool Pass::is_bound(const Job& job) const {
  return !job.ask.volumes.empty() || has_place_rules(state_, job.owner);
}

// What keeps one away from a reservation, a booking or an offer keeps away all that would stay as long.
void Pass::note_refused_stay(policy::KindIndex kind, const Job& job) {
  // It may use what is only offered, or is bound to one place: its refusal says nothing about others.
  if (job.ask.preemptible || is_bound(job)) return;
  Duration& shortest = refused_stay_.emplace(kind, Duration::max()).first->second;
  shortest = std::min(shortest, stay(job));
}

bool Pass::stays_too_long(policy::KindIndex kind, const Job& job) const {
  const auto refused = refused_stay_.find(kind);
  return refused != refused_stay_.end() && !job.ask.preemptible && !promised_.contains(job.id) &&
         stay(job) >= refused->second;
}

// Whoever fails as soon as it has its place does not take one from others again and again.
bool Pass::keeps_failing(const WaitingKey& key, const Job& job) const {
  if (capacity_.is_storming(key.tenant, envelope_.at)) return true;
  if (job.errors == 0 || job.leases.empty()) return false;
  return envelope_.at - state_.leases.at(job.leases.front()).ended < state_.settings.minimum_run;
}

// By its tenant's guarantee, with what starts in this pass, and what is being freed for others of that
// tenant.
bool Pass::is_due(PartyId tenant, const Job& job) const {
  std::int64_t milli = started_by(tenant) + job.ask.gpu_milli();
  for (const auto& [id, nodes] : promised_) {
    const Job* other = id == job.id ? nullptr : waiting(id);
    if (other != nullptr && tenant_of(state_, other->owner) == tenant) milli += other->ask.gpu_milli();
  }
  return within_guarantee(state_, tenant, milli);
}

// A guarantee is its owner's alone.
std::pair<policy::KindIndex, PartyId> Pass::claim_of(const WaitingKey& key, const Job& job) const {
  return {key.kind, is_due(key.tenant, job) ? key.tenant : PartyId{}};
}

// What others may not give to one, they may not give to anybody who has no more right and needs no less.
bool Pass::was_tried(const WaitingKey& key, const Job& job) const {
  const auto tried = tried_.find(claim_of(key, job));
  return tried != tried_.end() &&
         std::any_of(tried->second.begin(), tried->second.end(), [&](const Tried& one) {
           return one.priority >= job.ask.priority && one.nodes <= job.ask.nodes;
         });
}

bool Pass::may_reclaim(const WaitingKey& key, const Job& job) const {
  if (keeps_failing(key, job)) return false;
  return key.kind != kNoKind && reclaims_ < kReclaimsMax && !promised_.contains(job.id) &&
         !was_tried(key, job) && job.ask.instances > 0 && job.ask.volumes.empty();
}

// Work without devices has no part in guarantees.
bool Pass::would_borrow(PartyId tenant, const Job& job) const {
  return job.ask.gpu_milli() == 0 || !is_due(tenant, job);
}

// Capacity that work of higher priority is expected to want is not given to what would still be there then.
// What is due by right, or has waited too long, is.
bool Pass::waits_for_demand(const Turn& turn, const Job& job) {
  if (!preparation_.on() || turn.tier < 0) return false;
  return !is_due(turn.key.tenant, job) && !preparation_.leaves_room(job);
}

}  // namespace tranche::engine
