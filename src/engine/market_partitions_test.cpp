// SPDX-License-Identifier: Apache-2.0
// Partitions on the exchange: each is offered whole, at a place of its own on a device.
#include <doctest/doctest.h>

#include "engine/market_portion.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

Ask partition(const std::string& profile) {
  Ask ask = gpus(1);
  ask.model = "H100-SXM5-80GB";
  ask.isolation = Isolation::kHard;
  ask.profile = profile;
  return ask;
}

// One device that can be cut; the first tenant owns it, the second and third buy.
struct CutFloor : MarketWorld {
  NodeId node_id = partitionable("cut", 1);
  DeviceId gpu = device(0);
  std::int64_t slot = now_slot() + 1;

  CutFloor() { clock = start_of(slot); }

  static Instrument traded(const std::string& profile) {
    return {.model = "H100-SXM5-80GB", .shape = profile, .isolation = Isolation::kHard};
  }
  Decision offer(const std::string& profile, std::uint32_t slots = 8, std::uint32_t quantity = 1000) {
    return run(ListCapacity{.owner = traders[0],
                            .instrument = traded(profile),
                            .device = gpu,
                            .quantity = quantity,
                            .first_slot = slot,
                            .slots = slots,
                            .price = 10},
               traders[0]);
  }
  Decision buy(std::size_t who,
               const std::string& profile,
               std::uint32_t quantity = 1000,
               std::uint32_t slots = 8) {
    PlaceOrder order = bid(who, 10, slot, slots, quantity, TimeInForce::kIoc);
    order.book = 0;
    order.instrument = traded(profile);
    return run(order, traders[who]);
  }
  std::vector<std::uint8_t> starts_listed() {
    std::vector<std::uint8_t> starts;
    for (const std::uint64_t id : state.market.pieces.ids())
      starts.push_back(state.market.pieces.find(id)->start);
    return starts;
  }
};

TEST_CASE("market partitions: each has a place of its own, as many as the geometry has") {
  CutFloor world;
  for (int i = 0; i < 7; ++i) REQUIRE(world.offer("1g.10gb").has_value());
  const auto eighth = world.offer("1g.10gb");
  REQUIRE_FALSE(eighth);
  CHECK(eighth.error().rule == "calendar");
  const auto starts = world.starts_listed();
  CHECK(std::set<std::uint8_t>(starts.begin(), starts.end()).size() == 7);

  CutFloor mixed;
  REQUIRE(mixed.offer("3g.40gb").has_value());
  REQUIRE(mixed.offer("4g.40gb").has_value());
  CHECK(mixed.offer("1g.10gb").error().rule == "calendar");
}

TEST_CASE("market partitions: whole, known to the device, and never beside fractions of it") {
  CutFloor world;
  CHECK(world.offer("1g.10gb", 8, 500).error().rule == "shape");
  const auto unknown = world.offer("9g.999gb");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().rule == "shape");
  CHECK(unknown.error().fix.find("1g.10gb") != std::string::npos);
  REQUIRE(world.offer("1g.10gb").has_value());
  const ListCapacity whole{.owner = world.traders[0],
                           .device = world.gpu,
                           .quantity = 1000,
                           .first_slot = world.slot,
                           .slots = 4,
                           .price = 10};
  CHECK(world.run(whole, world.traders[0]).error().rule == "calendar");
  CHECK(world.buy(1, "1g.10gb", 500).error().rule == "quantity");

  CutFloor other;
  REQUIRE(other.run(ListCapacity{whole}, other.traders[0]).has_value());
  CHECK(other.offer("1g.10gb").error().rule == "calendar");
}

TEST_CASE("market partitions: strangers buy beside each other, and their jobs start where they bought") {
  CutFloor world;
  REQUIRE(world.offer("1g.10gb").has_value());
  REQUIRE(world.offer("2g.20gb").has_value());
  REQUIRE(world.buy(1, "1g.10gb").has_value());
  REQUIRE(world.buy(2, "2g.20gb").has_value());
  CHECK(world.buy(2, "1g.10gb").error().rule == "immediate");  // The only one is sold.
  const JobId small = world.submit(world.traders[1], partition("1g.10gb"));
  const JobId large = world.submit(world.traders[2], partition("2g.20gb"));
  world.schedule();
  const auto slice_of_job = [&](JobId id) -> const Slice& {
    return world.state.leases.at(world.state.jobs.at(id).leases.front()).slices.front();
  };
  REQUIRE(world.state.jobs.at(small).state == JobState::kStarting);
  REQUIRE(world.state.jobs.at(large).state == JobState::kStarting);
  CHECK(slice_of_job(small).start == world.starts_listed()[0]);
  CHECK(slice_of_job(large).start == world.starts_listed()[1]);

  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->market.pieces.find(2)->start == world.starts_listed()[1]);
}

TEST_CASE("market partitions: several at once are bought from several pieces, and sold on by the piece") {
  CutFloor world;
  for (int i = 0; i < 3; ++i) REQUIRE(world.offer("1g.10gb").has_value());
  REQUIRE(world.buy(1, "1g.10gb", 2000).has_value());
  CHECK(world.state.market.contracts.ids().size() == 2);
  const ListCapacity again{.owner = world.traders[1],
                           .bought = {2},
                           .quantity = 1000,
                           .first_slot = world.slot,
                           .slots = 8,
                           .price = 10};
  CHECK_FALSE(world
                  .run(ListCapacity{.owner = world.traders[1],
                                    .bought = {2},
                                    .quantity = 500,
                                    .first_slot = world.slot,
                                    .slots = 8,
                                    .price = 10},
                       world.traders[1])
                  .has_value());
  REQUIRE(world.run(again, world.traders[1]).has_value());
  REQUIRE(world.buy(2, "1g.10gb", 2000).has_value());  // One from its owner, one from the first buyer.
  const JobId one = world.submit(world.traders[2], partition("1g.10gb"));
  const JobId two = world.submit(world.traders[2], partition("1g.10gb"));
  const JobId third = world.submit(world.traders[2], partition("1g.10gb"));
  world.schedule();
  CHECK(world.state.jobs.at(one).state == JobState::kStarting);
  CHECK(world.state.jobs.at(two).state == JobState::kStarting);
  CHECK(world.state.jobs.at(third).state == JobState::kStarting);  // Four places are nobody's.
}

TEST_CASE("market partitions: one that is interrupted comes back to the same place") {
  CutFloor world;
  REQUIRE(world.offer("3g.40gb").has_value());  // Takes the place that a small one would be given now.
  REQUIRE(world.offer("1g.10gb").has_value());
  REQUIRE(world.run(CancelOrder{1}, world.traders[0]).has_value());
  REQUIRE(world.buy(1, "1g.10gb").has_value());
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]).has_value());
  REQUIRE(world.run(ResumeContract{{1}}, world.traders[0]).has_value());
  bool found = false;
  for (const auto& [id, booking] : world.state.bookings) {
    if (booking.state != BookingState::kBooked || booking.contract != ContractId{1}) continue;
    found = true;
    CHECK(booking.windows.front().places.front().slices.front().start == world.starts_listed()[1]);
  }
  CHECK(found);
}

}  // namespace
}  // namespace tranche::engine
