// SPDX-License-Identifier: Apache-2.0
#pragma once
// For tests: two tenants, one that asks for partitions and one that books them.
#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {

inline Ask partition(const std::string& profile, std::uint8_t priority = 50) {
  Ask ask = gpus(1, 143);
  ask.isolation = Isolation::kHard;
  ask.profile = profile;
  ask.priority = priority;
  return ask;
}

struct PartitionWorld : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");

  void book(const std::string& profile, Duration ahead) {
    const BookWindows command{.ask = partition(profile),
                              .windows = {{clock + ahead, clock + ahead + std::chrono::hours(2)}},
                              .zone = "UTC"};
    REQUIRE(run(command, bo).has_value());
  }
  const Lease& lease_of(JobId id) { return state.leases.at(state.jobs.at(id).leases.front()); }
  bool waits(JobId id) const { return state.jobs.at(id).state == JobState::kPending; }
  JobId submit_now(const Ask& ask) {
    const JobId job = submit(ana, ask);
    schedule();
    return job;
  }
};

}  // namespace tranche::engine
