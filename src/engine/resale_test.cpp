// SPDX-License-Identifier: Apache-2.0
#include "engine/resale.hpp"

#include <doctest/doctest.h>

#include "engine/market_fill.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;

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
  const auto oversold = world.run(again, member);  // 600 of 1000 are offered.
  REQUIRE_FALSE(oversold);
  CHECK(oversold.error().rule == "contract");
  CHECK(oversold.error().used == 600);
  CHECK(oversold.error().fix == "offer at most 0.4");
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

// Ten hours of a device, sold by the first tenant to the second and on to the third, at another price.
struct SoldOn : MarketWorld {
  std::int64_t slot = now_slot();
  DeviceId sold = device(0);

  SoldOn() : MarketWorld(4) {
    TRANCHE_CHECK(list(0, sold, 400, slot, 40).has_value());
    TRANCHE_CHECK(run(bid(1, 400, slot, 40, 1000, TimeInForce::kFok), traders[1]).has_value());
  }
  void sell_on(std::uint32_t quantity, std::int64_t after, std::uint32_t slots) {
    const ListCapacity offer{.owner = traders[1],
                             .bought = {1},
                             .quantity = quantity,
                             .first_slot = slot + after,
                             .slots = slots,
                             .price = 500};
    TRANCHE_CHECK(run(offer, traders[1]).has_value());
    const PlaceOrder order = bid(2, 500, slot + after, slots, quantity, TimeInForce::kFok);
    TRANCHE_CHECK(run(order, traders[2]).has_value());
  }
  void pass(Duration length) {
    for (const Instant end = clock + length; clock < end;) {
      clock += std::chrono::minutes(10);
      TRANCHE_CHECK(run(Tick{}).has_value());
    }
  }
  const Contract* contract(std::uint64_t id) const { return state.market.contracts.find(id); }
};

TEST_CASE(
    "resale: of what is cut under it, a contract loses the part that cannot be delivered, and no more") {
  SoldOn world;
  world.sell_on(1000, 0, 40);
  const Money value = world.contract(2)->value;
  world.pass(hours(1));
  const Money before = world.credit(2);
  const Instant cut = start_of(world.slot) + hours(5);
  REQUIRE_FALSE(contracts_due(world.state, world.clock));
  REQUIRE(world.run(ReclaimContract{{1}, cut}, world.traders[0]));
  CHECK(contracts_due(world.state, world.clock));  // Nobody waits for a tick by the minute.
  REQUIRE(world.run(Tick{}));
  CHECK_FALSE(contracts_due(world.state, world.clock));
  CHECK(world.contract(2)->state == ContractState::kAgreed);
  CHECK(world.contract(2)->end == cut);
  CHECK(world.credit(2).micros == before.micros + value.micros / 2 + value.micros / 2 / 10);
  world.pass(hours(5));
  const Contract& over = *world.contract(2);
  CHECK(over.state == ContractState::kCompleted);
  CHECK(over.lost == Duration{});
  CHECK(over.earned.micros == value.micros / 2);
  world.pass(hours(48));
  CHECK(world.contract(2) == nullptr);
  CHECK(balance(world.state.ledger, world.account(kPlatform, AccountKind::kEscrow)) == Money{});
}

TEST_CASE("resale: what lies behind a cut is paid back at once, or bought elsewhere, one after the other") {
  SoldOn world;
  for (const std::uint32_t quantity : {300U, 400U}) world.sell_on(quantity, 30, 4);
  world.sell_on(300, 0, 20);
  const ListCapacity as_good{.owner = world.traders[3],
                             .device = world.device(3),
                             .quantity = 400,
                             .first_slot = world.slot + 30,
                             .slots = 4,
                             .price = 450};
  REQUIRE(world.run(as_good, world.traders[3]));
  const Money paid{world.contract(2)->value.micros + world.contract(3)->value.micros};
  const Money before = world.credit(2);
  REQUIRE(world.run(ReclaimContract{{1}, start_of(world.slot + 20)}, world.traders[0]));
  for (int tick = 0; tick < 3; ++tick) REQUIRE(world.run(Tick{}));
  CHECK(world.contract(2)->state == ContractState::kDefaulted);
  CHECK(world.contract(3)->state == ContractState::kDefaulted);
  CHECK(world.contract(4)->state == ContractState::kAgreed);  // It ends where the cut is.
  CHECK(world.contract(4)->end == start_of(world.slot + 20));
  const Contract* instead = world.contract(5);
  REQUIRE(instead != nullptr);
  CHECK(instead->seller == world.traders[3]);
  CHECK(world.contract(6) == nullptr);  // There was only enough for one of them.
  CHECK(world.credit(2).micros == before.micros + paid.micros + paid.micros / 10 - instead->value.micros);
}

TEST_CASE("resale: what a seller takes back before it begins he offers again, as owner and as buyer") {
  SoldOn world;
  world.sell_on(1000, 8, 4);
  REQUIRE(world.run(ReclaimContract{{2}, start_of(world.slot + 8)}, world.traders[1]));
  CHECK(world.contract(2)->state == ContractState::kDefaulted);
  world.sell_on(1000, 8, 4);
  CHECK(world.contract(3)->state == ContractState::kAgreed);

  MarketWorld owner;
  const DeviceId device = owner.device(0);
  const std::int64_t slot = owner.now_slot() + 4;
  REQUIRE(owner.list(0, device, 400, slot, 4));
  REQUIRE(owner.run(owner.bid(1, 400, slot, 4, 1000, TimeInForce::kFok), owner.traders[1]));
  CHECK(owner.list(0, device, 400, slot, 4).error().rule == "calendar");
  REQUIRE(owner.run(ReclaimContract{{1}, start_of(slot)}, owner.traders[0]));
  REQUIRE(owner.list(0, device, 400, slot, 4));
}

}  // namespace
}  // namespace tranche::engine
