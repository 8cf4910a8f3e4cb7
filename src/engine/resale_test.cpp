// SPDX-License-Identifier: Apache-2.0
#include "engine/resale.hpp"

#include <doctest/doctest.h>

#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

TEST_CASE("resale: whoever may buy sells on what he bought, takes the offer back, and offers it again") {
  MarketWorld world;
  const PartyId member = world.user(world.tenants[1], "member", {Role::kMember});
  const PartyId other = world.user(world.tenants[2], "other", {Role::kMember});
  const std::int64_t slot = world.now_slot() + 4;
  REQUIRE(world.list(0, world.device(0), 500, slot, 8));
  PlaceOrder bid = world.bid(1, 500, slot, 8, 1000, TimeInForce::kFok);
  bid.party = member;
  REQUIRE(world.run(bid, member));
  const ListCapacity again{
      .owner = member, .bought = {1}, .quantity = 600, .first_slot = slot, .slots = 4, .price = 600};
  CHECK_FALSE(world.run(again, other));  // It is not his.
  ListCapacity of_a_device{.owner = member, .device = {1}, .quantity = 1000, .first_slot = slot, .slots = 4};
  of_a_device.price = 600;
  const auto barred = world.run(of_a_device, member);
  REQUIRE_FALSE(barred);
  CHECK(barred.error().rule == "role");
  CHECK(barred.error().fix.find("for the role capacity_owner") != std::string::npos);
  REQUIRE(world.run(again, member));
  const std::uint64_t ask = world.state.market.next_order - 1;
  CHECK(world.run(again, member).error().rule == "contract");  // 600 of 1000 are offered.
  CHECK_FALSE(world.run(CancelOrder{ask}, other));
  REQUIRE(world.run(CancelOrder{ask}, member));
  ListCapacity less = again;
  less.quantity = 400;
  REQUIRE(world.run(again, member));
  REQUIRE(world.run(less, world.traders[1]));  // The rest: an administrator may do it for him.
}

TEST_CASE("resale: what a seller took back is not sold on any more") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 4;
  REQUIRE(world.list(0, world.device(0), 500, slot, 8));
  REQUIRE(world.run(world.bid(1, 500, slot, 8, 1000, TimeInForce::kFok), world.traders[1]));
  const ListCapacity again{.owner = world.traders[1],
                           .bought = {1},
                           .quantity = 1000,
                           .first_slot = slot,
                           .slots = 8,
                           .price = 600};
  REQUIRE(world.run(again, world.traders[1]));
  REQUIRE(world.run(ReclaimContract{{1}, start_of(slot + 4)}, world.traders[0]));
  const auto late = world.run(world.bid(2, 600, slot + 2, 4, 1000, TimeInForce::kFok), world.traders[2]);
  REQUIRE_FALSE(late);
  // What is still his is.
  REQUIRE(world.run(world.bid(2, 600, slot, 4, 1000, TimeInForce::kFok), world.traders[2]));
  CHECK(world.state.market.contracts.find(2)->seller == world.traders[1]);
}

}  // namespace
}  // namespace tranche::engine
