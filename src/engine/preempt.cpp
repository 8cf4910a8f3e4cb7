// SPDX-License-Identifier: Apache-2.0
#include "engine/preempt.hpp"

#include <algorithm>
#include <limits>

#include "engine/attempt.hpp"

namespace tranche::engine {
namespace {

// A job that was stopped before is left alone this long, so that nobody is stopped for ever.
constexpr Duration kMinimumRun = std::chrono::minutes(10);
constexpr policy::Seconds kRestart = 60;

std::int64_t guarantee_of(const State& state, PartyId tenant) {
  const Party* party = state.party(tenant);
  return party == nullptr ? 0 : party->quota.gpu_milli.guaranteed.value_or(0);
}

// Beyond its tenant's guarantee: lent, and so to be given back.
bool is_borrowed(const State& state, const Lease& lease) {
  return state.index.capacity->running_milli(lease.tenant) - lease.gpu_milli() >=
         guarantee_of(state, lease.tenant);
}

bool may_stop(const State& state, Instant now, const Claimant& claimant, const Lease& lease) {
  const Job* job = state.job(lease.job);
  if (job == nullptr || !may_be_interrupted(*job, lease, now)) return false;
  const bool yields = job->ask.preemptible && job->ask.priority < claimant.priority;
  const bool lent = claimant.entitled && lease.tenant != claimant.tenant && is_borrowed(state, lease);
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

struct Candidate {
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
    const State& state, Instant now, NodeId node, policy::NodeIndex index, const MayStop& may_stop) {
  const Capacity& capacity = *state.index.capacity;
  std::vector<Candidate> candidates;
  for (const LeaseId id : capacity.leases_on(node)) {
    const Lease& lease = state.leases.at(id);
    if (capacity.placement_of(lease).node == index && may_stop(lease))
      candidates.push_back({harm(state, now, lease), id});
  }
  std::sort(candidates.begin(), candidates.end());
  return candidates;
}

}  // namespace

bool may_be_interrupted(const Job& job, const Lease& lease, Instant now) {
  if (!lease.live() || lease.revoked || lease.booking != ClaimId{}) return false;
  return job.attempts <= 1 || now - lease.granted >= kMinimumRun;
}

Instant next_interruptible(const State& state, Instant now) {
  Instant next = Instant::max();
  for (const auto& [id, node] : state.nodes) {
    for (const LeaseId lease_id : state.index.capacity->leases_on(id)) {
      const Lease& lease = state.leases.at(lease_id);
      const Job* job = state.job(lease.job);
      const bool spared = job != nullptr && job->attempts > 1 && lease.live() && !lease.revoked;
      if (spared && lease.granted + kMinimumRun > now) next = std::min(next, lease.granted + kMinimumRun);
    }
  }
  return next;
}

std::vector<Victims> ways_to_make_room(const State& state,
                                       Instant now,
                                       const policy::Shape& shape,
                                       const MayStop& may_stop,
                                       std::size_t at_most) {
  const Capacity& capacity = *state.index.capacity;
  std::vector<Victims> ways;
  for (const auto& [id, node] : state.nodes) {
    if (!takes_work(node)) continue;
    for (const policy::NodeIndex index : capacity.groups_of(id)) {
      if (!capacity.fleet().type_allows(capacity.fleet().spec(index), shape)) continue;
      const auto candidates = candidates_in(state, now, id, index, may_stop);
      if (candidates.empty()) continue;
      const auto chosen = make_room(state, index, shape, candidates);
      if (!chosen || chosen->empty() || chosen->size() > at_most) continue;
      Victims& way = ways.emplace_back(Victims{.node = id});
      for (const Candidate& one : *chosen) {
        way.harm += one.harm;
        way.victims.push_back(one.lease);
      }
    }
  }
  std::stable_sort(
      ways.begin(), ways.end(), [](const Victims& a, const Victims& b) { return a.harm < b.harm; });
  return ways;
}

std::optional<Victims> cheapest_victims(const State& state,
                                        Instant now,
                                        const Claimant& claimant,
                                        const policy::Shape& shape) {
  if (!claimant.entitled && !state.index.capacity->runs_preemptible()) return std::nullopt;
  auto ways = ways_to_make_room(
      state,
      now,
      shape,
      [&](const Lease& lease) { return may_stop(state, now, claimant, lease); },
      std::numeric_limits<std::size_t>::max());
  if (ways.empty()) return std::nullopt;
  ways.front().why = claimant.entitled ? "its capacity was lent and its owner asked for it back"
                                       : "work of higher priority needs its place";
  return std::move(ways.front());
}

LeaseRevoked revocation_for(const State& state,
                            const Lease& lease,
                            const Claimant& claimant,
                            const std::string& why) {
  return revocation(state, lease, EndReason::kPreempted, why, claimant.job);
}

}  // namespace tranche::engine
