// SPDX-License-Identifier: Apache-2.0
#include "engine/preempt.hpp"

#include <algorithm>
#include <map>

#include "engine/attempt.hpp"
#include "engine/place_rules.hpp"
#include "engine/room_trial.hpp"
#include "engine/slice_change.hpp"

namespace tranche::engine {
namespace {

constexpr policy::Seconds kRestart = 60;

std::int64_t guarantee_of(const State& state, PartyId tenant) {
  const Party* party = state.party(tenant);
  return party == nullptr ? 0 : party->quota.gpu_milli.guaranteed.value_or(0);
}

// Beyond its tenant's guarantee: lent, and so to be given back.
bool is_borrowed(const State& state, const Lease& lease, std::int64_t given, std::int64_t milli) {
  return state.index.capacity->running_milli(lease.tenant) - given - milli >=
         guarantee_of(state, lease.tenant);
}

std::optional<Yield> may_take(
    const State& state, const Claimant& claimant, const Job& job, const Lease& lease, std::int64_t given) {
  const bool yields = job.ask.preemptible && job.ask.priority < claimant.priority;
  const bool lent = claimant.entitled && lease.tenant != claimant.tenant &&
                    is_borrowed(state, lease, given, lease.gpu_milli());
  if (yields || lent) return Yield::kStop;
  // What it has beyond its least costs it nothing but speed: whoever waits and goes no later may have it.
  const bool spare =
      lease.tenant == claimant.tenant || is_borrowed(state, lease, given, surplus_of(lease, job));
  if (job.ask.range && job.ask.priority <= claimant.priority && spare) return Yield::kResize;
  return std::nullopt;
}

policy::Harm harm(const State& state, Instant now, const Lease& lease) {
  const Job& job = state.jobs.at(lease.job);
  const Instant saved = std::max({lease.granted, lease.started, lease.checkpoint});
  const auto lost = std::chrono::floor<std::chrono::seconds>(now - saved).count();
  const policy::Harm harm =
      policy::harm_of({.gpus = static_cast<std::int32_t>(std::max<std::int64_t>(job.ask.gpu_milli(), 1)),
                       .since_checkpoint = std::max<policy::Seconds>(lost, 0),
                       .restart = kRestart,
                       .past_preemptions = static_cast<std::int32_t>(job.attempts) - 1});
  return job.ask.preemptible ? harm / 4 : harm;  // Its owner was paid to be asked first.
}

// It runs, in nobody's window, and was not asked for anything yet.
bool is_held(const Lease& lease) {
  return lease.live() && !lease.revoked && lease.booking == ClaimId{} && !lease.change &&
         lease.parking == Parking::kNone;
}

struct Candidate {
  Yield how = Yield::kStop;
  policy::Harm harm = 0;
  LeaseId lease{};
  auto operator<=>(const Candidate&) const = default;
};

// Lets the cheapest go one by one until the shape fits, then keeps those that were not needed after all. Who
// would be asked alone is not asked beside others of his tenant that leave it no more than its own.
std::optional<std::vector<Candidate>> make_room(const State& state,
                                                policy::NodeIndex index,
                                                const RoomWish& wish,
                                                const MayTake& may_take,
                                                const std::vector<Candidate>& candidates) {
  const auto fits = [&](const std::vector<Candidate>& chosen, std::size_t without) {
    RoomTrial trial(state, index, wish.barred);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (i != without) trial.yield(chosen[i].lease, chosen[i].how);
    return trial.fits(wish.shape);
  };
  RoomTrial trial(state, index, wish.barred);
  std::map<PartyId, std::int64_t> given_by;
  std::map<LeaseId, std::int64_t> surplus_given;
  std::vector<Candidate> chosen;
  for (const Candidate& candidate : candidates) {
    if (trial.fits(wish.shape)) break;
    const Lease& lease = state.leases.at(candidate.lease);
    std::int64_t& given = given_by[lease.tenant];
    const std::int64_t own = surplus_given[lease.id];  // It is part of what stopping it gives.
    const auto worst = may_take(state.jobs.at(lease.job), lease, given - own);
    if (!worst || *worst < candidate.how) continue;
    const std::int64_t more = given_up_by(state, candidate.lease, candidate.how) - own;
    if (candidate.how == Yield::kResize) surplus_given[lease.id] = more;
    given += more;
    trial.yield(candidate.lease, candidate.how);
    chosen.push_back(candidate);
  }
  if (!trial.fits(wish.shape)) return std::nullopt;
  for (std::size_t i = 0; i + 1 < chosen.size();) {
    if (fits(chosen, i)) {
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return chosen;
}

class Candidates {
 public:
  Candidates(const State& state, Instant now, bool only_stops, const MayTake& may_take)
      : state_(state), now_(now), only_stops_(only_stops), may_take_(may_take) {}

  std::vector<Candidate> on(NodeId node, policy::NodeIndex index) {
    const Capacity& capacity = *state_.index.capacity;
    for (const LeaseId id : capacity.leases_on(node)) {
      const Lease& lease = state_.leases.at(id);
      const Job* job = state_.job(lease.job);
      if (job == nullptr || !is_held(lease) || capacity.placement_of(lease).node != index) continue;
      if (const auto worst = may_take_(*job, lease, given_by_[lease.tenant])) add(*job, lease, *worst);
    }
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  void add(const Job& job, const Lease& lease, Yield worst) {
    const policy::Harm cost = harm(state_, now_, lease);
    if (!only_stops_ && may_resize(state_, job, lease) && !job.ask.is_smallest()) {
      found_.push_back({Yield::kResize, cost, lease.id});
      given_by_[lease.tenant] += surplus_of(lease, job);
    }
    if (worst != Yield::kStop) return;
    // Asked to shrink a gang is not spared: it gives what it has beyond its least, once, and goes on.
    if (given_[job.id] < job.ask.surplus()) {
      ++given_[job.id];
      given_by_[lease.tenant] += lease.gpu_milli();
      found_.push_back({Yield::kMember, cost, lease.id});
    } else if (may_be_interrupted(state_, job, lease, now_)) {
      found_.push_back(
          {!only_stops_ && may_park(state_, job, lease) ? Yield::kPark : Yield::kStop, cost, lease.id});
    }
  }

  const State& state_;
  Instant now_;
  bool only_stops_;
  const MayTake& may_take_;
  std::vector<Candidate> found_;
  std::map<JobId, std::uint32_t> given_;  // Members of the elastic, whichever: none is more than the others.
  std::map<PartyId, std::int64_t> given_by_;
};

// Nobody becomes smaller than the room needs.
void keep_what_is_spare(const State& state,
                        policy::NodeIndex index,
                        const RoomWish& wish,
                        std::vector<Victim>& victims) {
  for (Victim& victim : victims) {
    if (victim.how != Yield::kResize) continue;
    const Ask& ask = state.jobs.at(state.leases.at(victim.lease).job).ask;
    for (int part = kResizeParts - 1; part >= 0; --part) {
      const Ask kept = part_of_range(ask.smallest(), ask, part);
      victim.milli = kept.milli_each;
      victim.vram = kept.vram_each;
      RoomTrial trial(state, index, wish.barred);
      for (const Victim& one : victims) trial.yield(one);
      if (trial.fits(wish.shape)) break;
    }
  }
}

Victims way_of(const State& state,
               NodeId node,
               policy::NodeIndex index,
               const RoomWish& wish,
               const std::vector<Candidate>& chosen) {
  Victims way{.node = node};
  for (const Candidate& one : chosen) {
    const Ask least = state.jobs.at(state.leases.at(one.lease).job).ask.smallest();
    way.harm[static_cast<std::size_t>(one.how)] += one.harm;
    way.victims.push_back({one.lease, one.how, least.milli_each, least.vram_each});
  }
  keep_what_is_spare(state, index, wish, way.victims);
  return way;
}

std::string why_of(const Claimant& claimant) {
  return claimant.entitled ? "its capacity was lent and its owner asked for it back"
                           : "work of higher priority needs its place";
}

}  // namespace

// A job that was stopped before is left alone for a while, so that nobody is stopped for ever.
bool may_be_interrupted(const State& state, const Job& job, const Lease& lease, Instant now) {
  const Instant since = std::max(lease.granted, lease.parked);
  const bool stopped_before = job.attempts > 1 || lease.parked_for > Duration{};
  return is_held(lease) && (!stopped_before || now - since >= state.settings.minimum_run);
}

Instant next_interruptible(const State& state, Instant now) {
  Instant next = Instant::max();
  for (const auto& [id, node] : state.nodes) {
    for (const LeaseId lease_id : state.index.capacity->leases_on(id)) {
      const Lease& lease = state.leases.at(lease_id);
      const Job* job = state.job(lease.job);
      const bool spared = job != nullptr && lease.live() && !lease.revoked &&
                          (job->attempts > 1 || lease.parked_for > Duration{});
      const Instant until = std::max(lease.granted, lease.parked) + state.settings.minimum_run;
      if (spared && until > now) next = std::min(next, until);
    }
  }
  return next;
}

std::vector<Victims> ways_to_make_room(const State& state,
                                       Instant now,
                                       const RoomWish& wish,
                                       const MayTake& may_take) {
  const Capacity& capacity = *state.index.capacity;
  std::vector<Victims> ways;
  for (const auto& [id, node] : state.nodes) {
    if (!takes_work(node)) continue;
    for (const policy::NodeIndex index : capacity.groups_of(id)) {
      if (!capacity.fleet().type_allows(capacity.fleet().spec(index), wish.shape)) continue;
      const auto candidates = Candidates(state, now, wish.only_stops, may_take).on(id, index);
      if (candidates.empty()) continue;
      const auto chosen = make_room(state, index, wish, may_take, candidates);
      if (!chosen || chosen->empty() || chosen->size() > wish.at_most) continue;
      ways.push_back(way_of(state, id, index, wish, *chosen));
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Victims& a, const Victims& b) {
    return std::lexicographical_compare(a.harm.rbegin(), a.harm.rend(), b.harm.rbegin(), b.harm.rend());
  });
  return ways;
}

std::int64_t given_up_by(const State& state, LeaseId id, Yield how) {
  const Lease& lease = state.leases.at(id);
  const Job& job = state.jobs.at(lease.job);
  if (how == Yield::kResize) return surplus_of(lease, job);
  if (how != Yield::kStop) return lease.gpu_milli();
  std::int64_t milli = 0;
  for (const LeaseId member : job.leases) {
    const Lease& one = state.leases.at(member);
    if (one.live()) milli += one.gpu_milli();
  }
  return milli;
}

std::optional<std::vector<Victims>> cheapest_victims_of_gang(const State& state,
                                                             Instant now,
                                                             const Claimant& claimant,
                                                             const policy::Shape& shape,
                                                             std::size_t members,
                                                             std::set<NodeId> closed) {
  const Capacity& capacity = *state.index.capacity;
  if (!claimant.entitled && !capacity.runs_preemptible() && capacity.resizable().empty()) return std::nullopt;
  if (members == 0) return std::nullopt;     // Nobody is in its way.
  std::map<PartyId, std::int64_t> given_by;  // On the nodes chosen so far.
  std::set<JobId> stopped;
  std::vector<Victims> chosen;
  while (chosen.size() < members) {
    auto ways = ways_to_make_room(
        state,
        now,
        {.shape = shape, .barred = claimant.barred},
        [&](const Job& job, const Lease& lease, std::int64_t given) -> std::optional<Yield> {
          if (closed.contains(lease.node)) return std::nullopt;
          if (stopped.contains(job.id)) return Yield::kStop;
          const auto before = given_by.find(lease.tenant);
          return may_take(
              state, claimant, job, lease, given + (before == given_by.end() ? 0 : before->second));
        });
    if (ways.empty()) return std::nullopt;
    Victims& way = ways.front();
    closed.insert(way.node);
    for (const Victim& victim : way.victims) {
      const Lease& lease = state.leases.at(victim.lease);
      if (victim.how == Yield::kStop && !stopped.insert(lease.job).second) continue;
      given_by[lease.tenant] += given_up_by(state, victim.lease, victim.how);
    }
    way.why = why_of(claimant);
    chosen.push_back(std::move(way));
  }
  return chosen;
}

std::optional<Victims> cheapest_victims(const State& state,
                                        Instant now,
                                        const Claimant& claimant,
                                        const policy::Shape& shape) {
  std::set<NodeId> closed;
  if (const Job* own = state.job(claimant.job)) close_forbidden(state, *own, now, closed);
  auto ways = cheapest_victims_of_gang(state, now, claimant, shape, 1, std::move(closed));
  if (!ways) return std::nullopt;
  return std::move(ways->front());
}

Events ways_made(const State& state, const Claimant& claimant, const Victims& plan) {
  std::map<JobId, std::set<LeaseId>> taken;
  std::map<JobId, NodeId> goes_to;
  Events events;
  for (const Victim& victim : plan.victims) {
    const Lease& lease = state.leases.at(victim.lease);
    if (victim.how == Yield::kResize) {
      events.push_back(change_asked(state,
                                    lease,
                                    {static_cast<std::uint16_t>(victim.milli), victim.vram, {}},
                                    claimant.job,
                                    "others wait for what its slice has beyond its least"));
    } else if (victim.how == Yield::kPark) {
      events.push_back(park_asked(state, lease, claimant.job, plan.why));
    } else {
      taken[lease.job].insert(victim.lease);
      goes_to[lease.job] = victim.goes_to;
    }
  }
  for (const auto& [id, leases] : taken) {
    const Job& job = state.jobs.at(id);
    const bool shrinks = leases.size() <= job.ask.surplus();
    const std::string why =
        shrinks ? plan.why + "; it goes on with fewer workers, from its checkpoint" : plan.why;
    for (const LeaseId member : job.leases) {
      const Lease& lease = state.leases.at(member);
      if (!lease.live() || lease.revoked) continue;
      const bool is_given = !shrinks || leases.contains(member);
      LeaseRevoked revoked = revocation(state,
                                        lease,
                                        shrinks ? EndReason::kResized : EndReason::kPreempted,
                                        why,
                                        is_given ? claimant.job : job.id);
      revoked.goes_to = goes_to[id];
      events.push_back(std::move(revoked));
    }
  }
  return events;
}

}  // namespace tranche::engine
