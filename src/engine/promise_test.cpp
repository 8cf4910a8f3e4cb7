// SPDX-License-Identifier: Apache-2.0
// What is freed for somebody is kept for him, and not a pass longer than that.
#include <algorithm>
#include <doctest/doctest.h>

#include "engine/partition_world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Else the node would be kept for whoever it was promised to, and be idle, for ever.
TEST_CASE("promises: one ends when what was left for it goes unwiped to another job of its tenant") {
  PartitionWorld world;
  world.node("a", 3);
  Ask guest = gpus(1);
  guest.preemptible = true;
  guest.priority = 10;
  std::vector<JobId> guests;
  for (int i = 0; i < 3; ++i) {
    guests.push_back(world.submit_now(guest));
    REQUIRE(world.report(world.lease_of(guests.back()).id, LeaseState::kRunning).has_value());
  }
  world.clock += 1h;
  const auto urgent = [](std::uint32_t devices) {
    Ask ask = gpus(devices);
    ask.priority = 90;
    return ask;
  };
  const JobId pair = world.submit_now(urgent(2));
  const JobId single = world.submit_now(urgent(1));
  const auto first = std::find_if(
      guests.begin(), guests.end(), [&](JobId id) { return world.lease_of(id).promised_to == pair; });
  REQUIRE(first != guests.end());
  const LeaseId left = world.lease_of(*first).id;
  REQUIRE(world.report(left, LeaseState::kEnded, EndReason::kPreempted).has_value());
  world.schedule();
  REQUIRE(world.waits(pair));
  REQUIRE_FALSE(world.waits(single));  // It may have what is freed on a node that is promised to it too.
  REQUIRE(world.lease_of(single).slices.front().device == world.state.leases.at(left).slices.front().device);
  CHECK_FALSE(world.state.index.capacity->promising().contains(left));
}

TEST_CASE("promises: what was freed for a job that cannot have it any more is for others in the same pass") {
  PartitionWorld world;
  world.partitionable("cut", 1);
  Ask guest = gpus(1);
  guest.preemptible = true;
  guest.priority = 10;
  const JobId leaves = world.submit_now(guest);
  const LeaseId lease = world.lease_of(leaves).id;
  REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
  world.clock += 1h;
  Ask urgent = gpus(1);
  urgent.isolation = Isolation::kDedicated;
  urgent.priority = 90;
  const JobId promised = world.submit_now(urgent);
  REQUIRE(world.lease_of(leaves).promised_to == promised);
  world.book("3g.40gb", 2h);  // It has no time limit, so it may not begin before this is over.
  Ask brief = partition("3g.40gb", 5);
  brief.time = 1h;
  const JobId other = world.submit_now(brief);
  REQUIRE(world.waits(other));
  REQUIRE(world.run(StopJob{leaves}, world.ana).has_value());
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kPreempted).has_value());
  REQUIRE(world.scrub(lease).has_value());
  world.schedule();
  CHECK(world.waits(promised));
  CHECK_FALSE(world.waits(other));
}

}  // namespace
}  // namespace tranche::engine
