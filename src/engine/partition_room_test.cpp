// SPDX-License-Identifier: Apache-2.0
// Partitions find the room that there is, and nobody makes way for one that could not have what he leaves.
#include <doctest/doctest.h>

#include "engine/partition_world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Two of seven compute slices are more of a device than two of its eight memory slices.
TEST_CASE("partitions: the last slots of a device go to a profile with more compute than memory") {
  PartitionWorld world;
  world.partitionable("cut", 1);
  for (const char* profile : {"3g.40gb", "1g.10gb", "1g.10gb", "2g.20gb"}) {
    CAPTURE(profile);
    CHECK_FALSE(world.waits(world.submit_now(partition(profile))));
  }
  CHECK(world.waits(world.submit_now(partition("1g.10gb"))));
}

TEST_CASE("partitions: nobody makes way for a job to which the slots that he leaves are closed") {
  for (const std::uint8_t priority : {std::uint8_t{90}, std::uint8_t{10}}) {  // By right, and by a move.
    CAPTURE(int{priority});
    PartitionWorld world;
    world.partitionable("cut", 1);
    world.book("3g.40gb", 2h);
    world.book("3g.40gb", 2h);
    Ask guest = partition("3g.40gb", 10);
    guest.preemptible = true;
    const JobId stays = world.submit_now(guest);
    REQUIRE_FALSE(world.waits(stays));
    REQUIRE(world.report(world.lease_of(stays).id, LeaseState::kRunning).has_value());
    world.clock += 15min;
    Ask urgent = partition("3g.40gb", priority);
    urgent.time = 4h;  // It would still be there when the windows open.
    const JobId waits = world.submit_now(urgent);
    CHECK(world.waits(waits));
    CHECK_FALSE(world.lease_of(stays).revoked);
  }
}

TEST_CASE("partitions: a gang keeps off booked slots however often it looks for its places") {
  PartitionWorld world;
  world.partitionable("a", 1);
  world.partitionable("b", 1);
  for (int half = 0; half < 4; ++half) world.book("3g.40gb", 2h);
  std::set<ClaimId> low;  // Those at the start; the others stay, where a partition would go first.
  for (const auto& [id, booking] : world.state.bookings)
    if (booking.windows.front().places.front().slices.front().start == 0) low.insert(id);
  REQUIRE(low.size() == 2);
  for (const ClaimId id : low) REQUIRE(world.run(CancelBooking{id}, world.bo).has_value());
  Ask both = partition("3g.40gb");
  both.instances = both.nodes = 2;
  both.time = 4h;
  const JobId gang = world.submit_now(both);
  REQUIRE_FALSE(world.waits(gang));
  for (const LeaseId id : world.state.jobs.at(gang).leases)
    CHECK(world.state.leases.at(id).slices.front().start == 0);
}

}  // namespace
}  // namespace tranche::engine
