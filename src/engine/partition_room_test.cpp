// SPDX-License-Identifier: Apache-2.0
// Partitions find the room that there is, and nobody makes way for one that could not have what he leaves.
#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

Ask partition(const std::string& profile, std::uint8_t priority = 50) {
  Ask ask = gpus(1, 143);
  ask.isolation = Isolation::kHard;
  ask.profile = profile;
  ask.priority = priority;
  return ask;
}

struct Cut : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");

  void book(const std::string& profile, Duration ahead) {
    const BookWindows command{
        .ask = partition(profile), .windows = {{clock + ahead, clock + ahead + 2h}}, .zone = "UTC"};
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

// Two of seven compute slices are more of a device than two of its eight memory slices.
TEST_CASE("partitions: the last slots of a device go to a profile with more compute than memory") {
  Cut world;
  world.partitionable("cut", 1);
  for (const char* profile : {"3g.40gb", "1g.10gb", "1g.10gb", "2g.20gb"}) {
    CAPTURE(profile);
    CHECK_FALSE(world.waits(world.submit_now(partition(profile))));
  }
  CHECK(world.waits(world.submit_now(partition("1g.10gb"))));
}

}  // namespace
}  // namespace tranche::engine
