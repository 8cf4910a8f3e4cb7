// SPDX-License-Identifier: Apache-2.0
#include "engine/preempt.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "engine/attempt.hpp"
#include "engine/place_rules.hpp"

namespace tranche::engine {
namespace {

constexpr policy::Seconds kRestart = 60;

std::int64_t guarantee_of(const State& state, PartyId tenant) {
  const Party* party = state.party(tenant);
  return party == nullptr ? 0 : party->quota.gpu_milli.guaranteed.value_or(0);
}

// Beyond its tenant's guarantee: lent, and so to be given back.
bool is_borrowed(const State& state, const Lease& lease, std::int64_t given) {
  return state.index.capacity->running_milli(lease.tenant) - given - lease.gpu_milli() >=
         guarantee_of(state, lease.tenant);
}

bool may_take(
    const State& state, const Claimant& claimant, const Job& job, const Lease& lease, std::int64_t given) {
  const bool yields = job.ask.preemptible && job.ask.priority < claimant.priority;
  const bool lent = claimant.entitled && lease.tenant != claimant.tenant && is_borrowed(state, lease, given);
  return yields || lent;
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

bool is_held(const Lease& lease) {
  return lease.live() && !lease.revoked && lease.booking == ClaimId{};
}

struct Candidate {
  bool stops = true;  // False: its job goes on with one member less.
  policy::Harm harm = 0;
  LeaseId lease{};
  auto operator<=>(const Candidate&) const = default;
};

// Lets the cheapest go one by one until the shape fits, then keeps those that were not needed after all.
std::optional<std::vector<Candidate>> make_room(const State& state,
                                                policy::NodeIndex index,
                                                const policy::Shape& shape,
                                                const std::vector<Candidate>& candidates) {
  const Capacity& capacity = *state.index.capacity;
  const auto without = [&](policy::NodeState& node, LeaseId id) {
    const Lease& lease = state.leases.at(id);
    capacity.fleet().release_from(
        node, capacity.shape_of(lease, state.jobs.at(lease.job).ask), capacity.placement_of(lease));
  };
  policy::NodeState node = capacity.fleet().node(index);
  std::vector<Candidate> chosen;
  for (const Candidate& candidate : candidates) {
    if (capacity.fleet().state_fits(node, shape)) break;
    without(node, candidate.lease);
    chosen.push_back(candidate);
  }
  if (!capacity.fleet().state_fits(node, shape)) return std::nullopt;
  for (std::size_t i = 0; i + 1 < chosen.size();) {
    policy::NodeState fewer = capacity.fleet().node(index);
    for (std::size_t other = 0; other < chosen.size(); ++other)
      if (other != i) without(fewer, chosen[other].lease);
    if (capacity.fleet().state_fits(fewer, shape)) {
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return chosen;
}

std::vector<Candidate> candidates_in(
    const State& state, Instant now, NodeId node, policy::NodeIndex index, const MayTake& may_take) {
  const Capacity& capacity = *state.index.capacity;
  std::vector<Candidate> candidates;
  std::map<JobId, std::uint32_t> given;  // Members of the elastic, whichever: none is more than the others.
  std::map<PartyId, std::int64_t> given_by;
  for (const LeaseId id : capacity.leases_on(node)) {
    const Lease& lease = state.leases.at(id);
    const Job* job = state.job(lease.job);
    if (capacity.placement_of(lease).node != index || job == nullptr || !is_held(lease)) continue;
    if (!may_take(*job, lease, given_by[lease.tenant])) continue;
    // Asked to shrink it is not spared: it gives what it has beyond its least, once, and goes on.
    const bool shrinks = given[job->id] < job->ask.surplus();
    if (!shrinks && !may_be_interrupted(state, *job, lease, now)) continue;
    given[job->id] += shrinks ? 1 : 0;
    given_by[lease.tenant] += shrinks ? lease.gpu_milli() : 0;
    candidates.push_back({!shrinks, harm(state, now, lease), id});
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

}  // namespace

// A job that was stopped before is left alone for a while, so that nobody is stopped for ever.
bool may_be_interrupted(const State& state, const Job& job, const Lease& lease, Instant now) {
  return is_held(lease) && (job.attempts <= 1 || now - lease.granted >= state.settings.minimum_run);
}

Instant next_interruptible(const State& state, Instant now) {
  Instant next = Instant::max();
  for (const auto& [id, node] : state.nodes) {
    for (const LeaseId lease_id : state.index.capacity->leases_on(id)) {
      const Lease& lease = state.leases.at(lease_id);
      const Job* job = state.job(lease.job);
      const bool spared = job != nullptr && job->attempts > 1 && lease.live() && !lease.revoked;
      const Instant until = lease.granted + state.settings.minimum_run;
      if (spared && until > now) next = std::min(next, until);
    }
  }
  return next;
}

std::vector<Victims> ways_to_make_room(const State& state,
                                       Instant now,
                                       const policy::Shape& shape,
                                       const MayTake& may_take,
                                       std::size_t at_most) {
  const Capacity& capacity = *state.index.capacity;
  std::vector<Victims> ways;
  for (const auto& [id, node] : state.nodes) {
    if (!takes_work(node)) continue;
    for (const policy::NodeIndex index : capacity.groups_of(id)) {
      if (!capacity.fleet().type_allows(capacity.fleet().spec(index), shape)) continue;
      const auto candidates = candidates_in(state, now, id, index, may_take);
      if (candidates.empty()) continue;
      const auto chosen = make_room(state, index, shape, candidates);
      if (!chosen || chosen->empty() || chosen->size() > at_most) continue;
      Victims& way = ways.emplace_back(Victims{.node = id});
      for (const Candidate& one : *chosen) {
        (one.stops ? way.harm : way.shrink_harm) += one.harm;
        way.victims.push_back(one.lease);
      }
    }
  }
  std::stable_sort(ways.begin(), ways.end(), [](const Victims& a, const Victims& b) {
    return std::pair(a.harm, a.shrink_harm) < std::pair(b.harm, b.shrink_harm);
  });
  return ways;
}

std::optional<Victims> cheapest_victims(const State& state,
                                        Instant now,
                                        const Claimant& claimant,
                                        const policy::Shape& shape) {
  if (!claimant.entitled && !state.index.capacity->runs_preemptible()) return std::nullopt;
  std::set<NodeId> closed;
  if (const Job* own = state.job(claimant.job)) close_forbidden(state, *own, now, closed);
  auto ways = ways_to_make_room(
      state,
      now,
      shape,
      [&](const Job& job, const Lease& lease, std::int64_t given) {
        return !closed.contains(lease.node) && may_take(state, claimant, job, lease, given);
      },
      std::numeric_limits<std::size_t>::max());
  if (ways.empty()) return std::nullopt;
  ways.front().why = claimant.entitled ? "its capacity was lent and its owner asked for it back"
                                       : "work of higher priority needs its place";
  return std::move(ways.front());
}

Events ways_made(const State& state, const Claimant& claimant, const Victims& plan) {
  std::map<JobId, std::set<LeaseId>> taken;
  for (const LeaseId id : plan.victims) taken[state.leases.at(id).job].insert(id);
  Events events;
  for (const auto& [id, leases] : taken) {
    const Job& job = state.jobs.at(id);
    const bool shrinks = leases.size() <= job.ask.surplus();
    const std::string why =
        shrinks ? plan.why + "; it goes on with fewer workers, from its checkpoint" : plan.why;
    for (const LeaseId member : job.leases) {
      const Lease& lease = state.leases.at(member);
      if (!lease.live() || lease.revoked) continue;
      const bool is_given = !shrinks || leases.contains(member);
      events.push_back(revocation(state,
                                  lease,
                                  shrinks ? EndReason::kResized : EndReason::kPreempted,
                                  why,
                                  is_given ? claimant.job : job.id));
    }
  }
  return events;
}

}  // namespace tranche::engine
