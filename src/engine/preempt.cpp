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
constexpr int kGangTries = 4;

std::int64_t guarantee_of(const State& state, PartyId tenant) {
  const Party* party = state.party(tenant);
  return party == nullptr ? 0 : party->quota.gpu_milli.guaranteed.value_or(0);
}

bool may_take(const State& state,
              const Claimant& claimant,
              const Job& job,
              const Lease& lease,
              Yield how,
              std::int64_t given) {
  if (job.ask.preemptible && job.ask.priority < claimant.priority) return true;
  // Beyond its tenant's guarantee: lent, and so to be given back.
  const bool lent =
      state.index.capacity->running_milli(lease.tenant) - given >= guarantee_of(state, lease.tenant);
  const bool own = lease.tenant == claimant.tenant;
  if (claimant.entitled && !own && lent) return true;
  // What it has beyond its least costs it nothing but speed: whoever waits and goes no later may have it.
  return how == Yield::kResize && job.ask.range && job.ask.priority <= claimant.priority && (own || lent);
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

// Beside what is given up already.
bool may_yield(
    const State& state, const MayTake& may_take, const Lease& lease, Yield how, const GivenUp& given) {
  if (given.stops(lease.job)) return true;  // It falls with its gang.
  const std::int64_t in_all = given.by(lease.tenant) + given.more(state, lease.id, how);
  return may_take(state.jobs.at(lease.job), lease, how, in_all);
}

// Lets the cheapest go one by one until the shape fits. Where one is refused for what its tenant has left,
// the same without those of that tenant who are cheaper, the last of them first.
class RoomSearch {
 public:
  RoomSearch(const State& state,
             const RoomWish& wish,
             const MayTake& may_take,
             const std::vector<Candidate>& candidates)
      : state_(state), wish_(wish), may_take_(may_take), candidates_(candidates) {}

  bool find(const RoomTrial& trial, const GivenUp& given, std::size_t next = 0) {
    if (trial.fits(wish_.shape)) return true;
    if (next == candidates_.size()) return false;
    const Candidate& candidate = candidates_[next];
    const Lease& lease = state_.leases.at(candidate.lease);
    if (!may_yield(state_, may_take_, lease, candidate.how, given)) {
      ++refused_[lease.tenant];
      return find(trial, given, next + 1);
    }
    const int refused = refused_[lease.tenant];
    chosen_.push_back(candidate);
    if (find_with(candidate, trial, given, next + 1)) return true;
    chosen_.pop_back();
    // Where nobody was refused for its sake, there is only less room without it.
    if (refused_[lease.tenant] == refused || ++second_thoughts_ > kSecondThoughtsMax) return false;
    std::size_t other = next + 1;
    while (other < candidates_.size() && are_alike(candidate, candidates_[other])) ++other;
    return find(trial, given, other);
  }
  [[nodiscard]] const std::vector<Candidate>& chosen() const { return chosen_; }

 private:
  static constexpr int kSecondThoughtsMax = 256;

  bool find_with(const Candidate& candidate, RoomTrial trial, GivenUp given, std::size_t next) {
    trial.yield(candidate.lease, candidate.how);
    given.add(state_, candidate.lease, candidate.how);
    return find(trial, given, next);
  }
  // What one of them could not do, the other cannot: as many whole devices of the same tenant.
  [[nodiscard]] bool are_alike(const Candidate& a, const Candidate& b) const {
    const Lease& one = state_.leases.at(a.lease);
    const Lease& other = state_.leases.at(b.lease);
    const Ask& ask = state_.jobs.at(one.job).ask;
    if (a.how != b.how || one.tenant != other.tenant || ask != state_.jobs.at(other.job).ask) return false;
    return ask.nodes <= 1 && ask.milli_each >= policy::kDeviceMilli && all_open(one) && all_open(other);
  }
  [[nodiscard]] bool all_open(const Lease& lease) const {
    const Capacity& capacity = *state_.index.capacity;
    return std::all_of(lease.slices.begin(), lease.slices.end(), [&](const Slice& slice) {
      const policy::NodeState& node = capacity.fleet().node(capacity.group_of(slice.device));
      return !node.devices[static_cast<std::size_t>(capacity.position_of(slice.device))].blocked;
    });
  }

  const State& state_;
  const RoomWish& wish_;
  const MayTake& may_take_;
  const std::vector<Candidate>& candidates_;
  std::vector<Candidate> chosen_;
  std::map<PartyId, int> refused_;
  int second_thoughts_ = 0;
};

// Who is cheapest to let go, without those that are not needed after all. Who would be asked alone is not
// asked beside others of his tenant that leave it no more than its own.
std::optional<std::vector<Candidate>> make_room(const State& state,
                                                const RoomTrial& before,
                                                const RoomWish& wish,
                                                const MayTake& may_take,
                                                const std::vector<Candidate>& candidates) {
  const auto fits = [&](const std::vector<Candidate>& chosen, std::size_t without) {
    RoomTrial trial = before;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (i != without) trial.yield(chosen[i].lease, chosen[i].how);
    return trial.fits(wish.shape);
  };
  if (!fits(candidates, candidates.size())) return std::nullopt;
  RoomSearch search(state, wish, may_take, candidates);
  if (!search.find(before, wish.given)) return std::nullopt;
  std::vector<Candidate> chosen = search.chosen();
  for (std::size_t i = 0; i + 1 < chosen.size();) {
    if (fits(chosen, i)) {
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return chosen;
}

// Who could be asked on a node, were he the only one there.
class Candidates {
 public:
  Candidates(const State& state, Instant now, const RoomWish& wish, const MayTake& may_take)
      : state_(state), now_(now), wish_(wish), may_take_(may_take) {}

  std::vector<Candidate> on(NodeId node, policy::NodeIndex index) {
    const Capacity& capacity = *state_.index.capacity;
    for (const LeaseId id : capacity.leases_on(node)) {
      const Lease& lease = state_.leases.at(id);
      const Job* job = state_.job(lease.job);
      if (job == nullptr || !is_held(lease) || capacity.placement_of(lease).node != index) continue;
      add(*job, lease);
    }
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  void add(const Job& job, const Lease& lease) {
    const policy::Harm cost = harm(state_, now_, lease);
    const auto may = [&](Yield how) { return may_yield(state_, may_take_, lease, how, wish_.given); };
    if (!wish_.only_stops && may_resize(state_, job, lease) && !job.ask.is_smallest() && may(Yield::kResize))
      found_.push_back({Yield::kResize, cost, lease.id});
    // Asked to shrink a gang is not spared: it gives what it has beyond its least, once, and goes on.
    std::uint32_t& members = members_.emplace(job.id, wish_.given.members_of(job)).first->second;
    if (members < job.ask.surplus() && may(Yield::kMember)) {
      ++members;
      found_.push_back({Yield::kMember, cost, lease.id});
    } else if (may_be_interrupted(state_, job, lease, now_) && may(Yield::kStop)) {
      found_.push_back(
          {!wish_.only_stops && may_park(state_, job, lease) ? Yield::kPark : Yield::kStop, cost, lease.id});
    }
  }

  const State& state_;
  Instant now_;
  const RoomWish& wish_;
  const MayTake& may_take_;
  std::vector<Candidate> found_;
  std::map<JobId, std::uint32_t> members_;  // Of the elastic, whichever: none is more than the others.
};

// Nobody becomes smaller than the room needs.
void keep_what_is_spare(const State& state,
                        const RoomTrial& before,
                        const RoomWish& wish,
                        std::vector<Victim>& victims) {
  for (Victim& victim : victims) {
    if (victim.how != Yield::kResize) continue;
    const Ask& ask = state.jobs.at(state.leases.at(victim.lease).job).ask;
    for (int part = kResizeParts - 1; part >= 0; --part) {
      const Ask kept = part_of_range(ask.smallest(), ask, part);
      victim.milli = kept.milli_each;
      victim.vram = kept.vram_each;
      RoomTrial trial = before;
      for (const Victim& one : victims) trial.yield(one);
      if (trial.fits(wish.shape)) break;
    }
  }
}

Victims way_of(const State& state,
               NodeId node,
               const RoomTrial& before,
               const RoomWish& wish,
               const std::vector<Candidate>& chosen) {
  Victims way{.node = node};
  for (const Candidate& one : chosen) {
    const Ask least = state.jobs.at(state.leases.at(one.lease).job).ask.smallest();
    way.harm[static_cast<std::size_t>(one.how)] += one.harm;
    way.victims.push_back({one.lease, one.how, least.milli_each, least.vram_each});
  }
  keep_what_is_spare(state, before, wish, way.victims);
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
    if (!takes_work(node) || wish.closed.contains(id)) continue;
    for (const policy::NodeIndex index : capacity.groups_of(id)) {
      if (!capacity.fleet().type_allows(capacity.fleet().spec(index), wish.shape)) continue;
      const auto candidates = Candidates(state, now, wish, may_take).on(id, index);
      if (candidates.empty()) continue;
      RoomTrial before(state, index, wish.barred);
      if (wish.foresee) wish.foresee(before, id, index);
      const auto chosen = make_room(state, before, wish, may_take, candidates);
      if (!chosen || chosen->empty() || chosen->size() > wish.at_most) continue;
      ways.push_back(way_of(state, id, before, wish, *chosen));
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Victims& a, const Victims& b) {
    return std::lexicographical_compare(a.harm.rbegin(), a.harm.rend(), b.harm.rbegin(), b.harm.rend());
  });
  return ways;
}

namespace {

struct GangWays {
  std::vector<Victims> ways;
  NodeId dearest{};  // Where most is given up.
};

// Node by node the cheapest, as far as there are such.
GangWays ways_of_gang(
    const State& state, Instant now, RoomWish wish, std::size_t members, const MayTake& may_take) {
  GangWays found;
  std::int64_t most = -1;
  while (found.ways.size() < members) {
    auto ways = ways_to_make_room(state, now, wish, may_take);
    if (ways.empty()) break;
    Victims& way = ways.front();
    wish.closed.insert(way.node);
    const std::int64_t before = wish.given.by_all();
    for (const Victim& victim : way.victims) wish.given.add(state, victim.lease, victim.how);
    const std::int64_t gives = wish.given.by_all() - before;
    if (gives > most) found.dearest = way.node;
    most = std::max(most, gives);
    found.ways.push_back(std::move(way));
  }
  return found;
}

}  // namespace

std::optional<std::vector<Victims>> cheapest_victims_of_gang(const State& state,
                                                             Instant now,
                                                             const Claimant& claimant,
                                                             const policy::Shape& shape,
                                                             std::size_t members,
                                                             std::set<NodeId> closed,
                                                             const GivenUp& asked) {
  if (members == 0) return std::nullopt;  // Nobody is in its way.
  const MayTake may = [&](const Job& job, const Lease& lease, Yield how, std::int64_t given) {
    return !asked.names(lease.id) &&
           may_take(state, claimant, job, lease, how, asked.by(lease.tenant) + given);
  };
  for (int tries = 0; tries < kGangTries; ++tries) {
    const RoomWish wish{
        .shape = shape, .barred = claimant.barred, .closed = closed, .foresee = claimant.foresee};
    GangWays found = ways_of_gang(state, now, wish, members, may);
    if (found.ways.size() == members) {
      for (Victims& way : found.ways) way.why = why_of(claimant);
      return std::move(found.ways);
    }
    if (found.ways.empty() || !claimant.entitled) return std::nullopt;
    closed.insert(found.dearest);  // It may have used up what was lent on the others.
  }
  return std::nullopt;
}

std::optional<Victims> cheapest_victims(const State& state,
                                        Instant now,
                                        const Claimant& claimant,
                                        const policy::Shape& shape,
                                        const GivenUp& asked) {
  std::set<NodeId> closed;
  if (const Job* own = state.job(claimant.job)) close_forbidden(state, *own, now, closed);
  auto ways = cheapest_victims_of_gang(state, now, claimant, shape, 1, std::move(closed), asked);
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
