// SPDX-License-Identifier: Apache-2.0
#include "engine/given_up.hpp"

#include <algorithm>

#include "engine/slice_change.hpp"

namespace tranche::engine {
namespace {

// A gang that goes on with another number of members has the rest of its devices again at once.
std::int64_t revoked_milli(const Lease& lease, EndReason reason, JobId promised_to) {
  return reason == EndReason::kResized && promised_to == lease.job ? 0 : lease.gpu_milli();
}

std::int64_t shrunk_milli(const Lease& lease, std::uint16_t milli) {
  return std::max<std::int64_t>(
      lease.gpu_milli() - std::int64_t{milli} * static_cast<std::int64_t>(lease.slices.size()), 0);
}

std::int64_t whole_milli(const State& state, const Lease& lease, Yield how) {
  return how == Yield::kResize ? surplus_of(lease, state.jobs.at(lease.job)) : lease.gpu_milli();
}

}  // namespace

GivenUp GivenUp::by_those_asked(const State& state) {
  GivenUp given;
  for (const auto& [node, record] : state.nodes) {
    for (const LeaseId id : state.index.capacity->leases_on(node)) {
      const Lease& lease = state.leases.at(id);
      if (!lease.live() || lease.parking == Parking::kParked) continue;  // It does not count as running.
      if (lease.revoked) {
        given.raise(lease, revoked_milli(lease, lease.revoke_reason, lease.promised_to));
      } else if (lease.parking == Parking::kAsked) {
        given.raise(lease, lease.gpu_milli());
      } else if (lease.change) {
        given.raise(lease, shrunk_milli(lease, lease.change->milli));
      }
    }
  }
  return given;
}

void GivenUp::add(const State& state, const Event& event) {
  if (const auto* revoked = std::get_if<LeaseRevoked>(&event)) {
    const Lease& lease = state.leases.at(revoked->id);
    raise(lease, revoked_milli(lease, revoked->reason, revoked->promised_to));
  } else if (const auto* parked = std::get_if<LeaseParkAsked>(&event)) {
    const Lease& lease = state.leases.at(parked->id);
    raise(lease, lease.gpu_milli());
  } else if (const auto* changed = std::get_if<SliceChangeAsked>(&event)) {
    const Lease& lease = state.leases.at(changed->id);
    raise(lease, shrunk_milli(lease, changed->milli));
  }
}

void GivenUp::add(const State& state, LeaseId id, Yield how) {
  const Lease& lease = state.leases.at(id);
  raise(lease, whole_milli(state, lease, how));
  if (how != Yield::kStop) return;
  stopped_.insert(lease.job);
  for (const LeaseId member : state.jobs.at(lease.job).leases) {
    const Lease& one = state.leases.at(member);
    if (one.live()) raise(one, one.gpu_milli());
  }
}

std::int64_t GivenUp::more(const State& state, LeaseId id, Yield how) const {
  const Lease& lease = state.leases.at(id);
  if (how != Yield::kStop) return std::max<std::int64_t>(whole_milli(state, lease, how) - of(id), 0);
  std::int64_t milli = 0;
  for (const LeaseId member : state.jobs.at(lease.job).leases) {
    const Lease& one = state.leases.at(member);
    if (one.live()) milli += one.gpu_milli() - of(member);
  }
  return milli;
}

std::int64_t GivenUp::by(PartyId tenant) const {
  const auto found = by_tenant_.find(tenant);
  return found == by_tenant_.end() ? 0 : found->second;
}

std::int64_t GivenUp::by_all() const {
  std::int64_t milli = 0;
  for (const auto& [tenant, given] : by_tenant_) milli += given;
  return milli;
}

std::uint32_t GivenUp::members_of(const Job& job) const {
  return static_cast<std::uint32_t>(
      std::count_if(job.leases.begin(), job.leases.end(), [&](LeaseId id) { return names(id); }));
}

void GivenUp::raise(const Lease& lease, std::int64_t milli) {
  std::int64_t& given = of_lease_[lease.id];
  by_tenant_[lease.tenant] += std::max<std::int64_t>(milli - given, 0);
  given = std::max(given, milli);
}

std::int64_t GivenUp::of(LeaseId id) const {
  const auto found = of_lease_.find(id);
  return found == of_lease_.end() ? 0 : found->second;
}

}  // namespace tranche::engine
