// SPDX-License-Identifier: Apache-2.0
#include "engine/recurring_listing.hpp"

#include <doctest/doctest.h>

#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// One connected device of the first tenant, offered for two hours of each day that comes.
struct Nights : MarketWorld {
  NodeId machine = node("a", 1);
  DeviceId gpu = device(0);
  Instant first = start_of(now_slot() + 1) + 24h;

  std::vector<TimeSpan> nights(int count) const {
    std::vector<TimeSpan> windows;
    for (int i = 0; i < count; ++i) windows.push_back({first + 24h * i, first + 24h * i + 2h});
    return windows;
  }
  Decision offer(std::vector<TimeSpan> windows, Duration ahead = 12h, std::size_t who = 0) {
    return offer_of(traders[who], std::move(windows), ahead, who);
  }
  Decision offer_of(PartyId owner, std::vector<TimeSpan> windows, Duration ahead, std::size_t who) {
    return run(SetRecurringListing{.owner = owner,
                                   .offer = {.device = gpu, .quantity = 1000, .price = 10},
                                   .every = "day 22:00",
                                   .zone = "Europe/Madrid",
                                   .ahead = ahead,
                                   .windows = std::move(windows)},
               traders[who]);
  }
  void at(Instant when) {
    clock = when;
    REQUIRE(run(Tick{}));
    schedule();
  }
  const RecurringListing& listing() const { return state.recurring_listings.at({1}); }
};

TEST_CASE("recurring listing: what somebody sells for his tenant is listed each time") {
  Nights world;
  REQUIRE(world.offer_of(world.tenants[0], world.nights(2), 12h, 0));
  world.at(world.first - 12h);
  CHECK(world.listing().missed == 0);
  REQUIRE(world.listing().orders.size() == 1);
  CHECK(world.state.market.books.order(world.listing().orders[0])->party == world.tenants[0]);
}

TEST_CASE("recurring listing: each window is listed its time ahead, once, and not before") {
  Nights world;
  REQUIRE(world.offer(world.nights(3)));
  world.schedule();
  CHECK(world.state.market.books.size() == 0);
  world.at(world.first - 12h);
  REQUIRE(world.listing().orders.size() == 1);
  const MarketOrder* ask = world.state.market.books.order(world.listing().orders[0]);
  REQUIRE(ask != nullptr);
  CHECK(start_of(ask->first_slot) == world.first);
  CHECK(ask->slots == 8);
  world.schedule();
  CHECK(world.listing().listed == 1);
  CHECK(world.listing().windows.size() == 2);

  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->recurring_listings.at({1}).windows == world.listing().windows);
  CHECK(copy->index.work->listings == world.state.index.work->listings);

  world.at(world.first + 12h);
  CHECK(world.listing().listed == 2);
  CHECK(world.listing().orders.size() == 1);  // The first was not sold, and is over.
}

TEST_CASE("recurring listing: what the calendar does not allow is missed, and says why; the next is listed") {
  Nights world;
  REQUIRE(world.offer(world.nights(2)));
  REQUIRE(
      world.run(BookWindows{.ask = gpus(1), .windows = {{world.first, world.first + 1h}}}, world.traders[2]));
  world.at(world.first - 12h);
  CHECK(world.listing().listed == 0);
  REQUIRE(world.listing().missed == 1);
  CHECK(world.listing().misses[0].window.from == world.first);
  CHECK(world.listing().misses[0].why.find("booked or in use") != std::string::npos);
  world.at(world.first + 12h);
  CHECK(world.listing().listed == 1);
  CHECK(world.listing().windows.empty());
}

TEST_CASE("recurring listing: what was listed is sold like any other, and cancelling ends the rest") {
  Nights world;
  REQUIRE(world.offer(world.nights(3), 36h));
  world.at(world.first - 12h);  // Two are within reach.
  REQUIRE(world.listing().orders.size() == 2);
  const std::int64_t slot = slot_of(world.first);
  REQUIRE(world.run(world.bid(1, 10, slot, 8, 1000, TimeInForce::kFok), world.traders[1]));
  CHECK(world.state.market.contracts.size() == 1);
  CHECK(world.run(RemoveRecurringListing{{1}}, world.traders[1]).error().reason == Reason::kNotFound);
  REQUIRE(world.run(RemoveRecurringListing{{1}}, world.traders[0]));
  CHECK(world.state.market.books.size() == 0);
  CHECK(world.state.market.contracts.size() == 1);
  world.at(world.first + 72h);
  CHECK(world.state.market.next_order == 4);  // Two asks and a bid, and nothing since.
  CHECK_FALSE(world.run(RemoveRecurringListing{{1}}, world.traders[0]).has_value());
}

TEST_CASE(
    "recurring listing: windows that nobody was there for are missed, and of a late one the rest is sold") {
  Nights world;
  REQUIRE(world.offer(world.nights(2)));
  world.clock = world.first + 25h;  // In the middle of the second.
  world.schedule();
  CHECK(world.listing().missed == 1);
  CHECK(world.listing().misses[0].why == "its window had passed before it could be listed");
  REQUIRE(world.listing().orders.size() == 1);
  CHECK(world.state.market.books.order(world.listing().orders[0])->slots == 4);
}

TEST_CASE("recurring listing: mistakes are refused when it is set, and say what would pass") {
  Nights world;
  CHECK(world.offer({}).error().rule == "every");
  CHECK(world.offer({{world.first, world.first + 2h}, {world.first + 1h, world.first + 3h}}).error().rule ==
        "every");
  CHECK(world.offer({{world.first + 7min, world.first + 2h}}).error().rule == "window");
  CHECK(world.offer(world.nights(2), 24h * 365).error().rule == "ahead");
  CHECK(world.offer(world.nights(2), 1h, 1).error().reason == Reason::kNotFound);  // Not his device.
  CHECK(world
            .run(SetRecurringListing{.owner = world.traders[0],
                                     .offer = {.device = world.gpu, .quantity = 1000},
                                     .windows = world.nights(1)},
                 world.traders[0])
            .error()
            .rule == "price");
  CHECK(world.state.recurring_listings.empty());
}

}  // namespace
}  // namespace tranche::engine
