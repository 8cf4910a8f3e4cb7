// SPDX-License-Identifier: Apache-2.0
#include "engine/quote.hpp"

#include <doctest/doctest.h>

#include "engine/market_fill.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

struct Quoting : MarketWorld {
  std::int64_t slot = now_slot() + 1;

  KeepQuote question(std::size_t who, std::uint32_t quantity = 1000, std::uint32_t slots = 4) const {
    return {.party = traders[who], .book = 1, .first_slot = slot, .slots = slots, .quantity = quantity};
  }
  const Quote& keep(std::size_t who, std::uint32_t quantity = 1000, std::uint32_t slots = 4) {
    TRANCHE_CHECK(run(question(who, quantity, slots), traders[who]).has_value());
    return state.market.quotes.rbegin()->second;
  }
  void check_money() const {
    Money sum{};
    for (const std::uint64_t id : state.ledger.accounts.ids()) {
      const Account& account = *state.ledger.accounts.find(id);
      sum.micros += account.balance.micros;
      CHECK(account.held >= Money{});
    }
    CHECK(sum == Money{});
  }
};

TEST_CASE("quote: what was told is what is paid, whatever the price does meanwhile") {
  Quoting world;
  const DeviceId device = world.device(0);
  REQUIRE(world.list(0, device, 500, world.slot, 8));
  const Quote quote = world.keep(1, 1000, 4);
  CHECK(quote.cost.micros == 500 * 1000 * 4);
  CHECK(world.free(1).micros == units(1'000'000).micros - quote.cost.micros);
  // Nobody else gets it, at any price; and the seller takes back the rest and asks for more.
  const auto other = world.run(world.bid(2, 9'000, world.slot, 4, 1000, TimeInForce::kIoc), world.traders[2]);
  CHECK(other.error().rule == "immediate");
  REQUIRE(world.run(CancelOrder{1}, world.traders[0]));
  REQUIRE(world.list(0, device, 900, world.slot + 4, 4));
  world.clock += 59s;
  REQUIRE(world.run(TakeQuote{quote.id}, world.traders[1]));
  const Contract& contract = *world.state.market.contracts.find(1);
  CHECK(contract.price == 500);
  CHECK(contract.value == quote.cost);
  CHECK(contract.slots == 4);
  CHECK(world.credit(1).micros == units(1'000'000).micros - quote.cost.micros);
  CHECK(world.free(1) == world.credit(1));
  CHECK(world.state.market.quotes.empty());
  world.check_money();
}

TEST_CASE("quote: one that expired is worth nothing, and gives back money and capacity") {
  Quoting world;
  REQUIRE(world.list(0, world.device(0), 500, world.slot, 8));
  const Quote quote = world.keep(1, 600, 4);
  CHECK_FALSE(quotes_due(world.state, world.clock));
  world.clock = quote.expires;
  const auto late = world.run(TakeQuote{quote.id}, world.traders[1]);
  CHECK(late.error().rule == "expired");
  CHECK(quotes_due(world.state, world.clock));
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.quotes.empty());
  CHECK(world.free(1) == units(1'000'000));
  CHECK(world.run(TakeQuote{quote.id}, world.traders[1]).error().reason == Reason::kNotFound);
  // All of it is there for the next.
  REQUIRE(world.run(world.bid(2, 500, world.slot, 4, 1000, TimeInForce::kFok), world.traders[2]));
  REQUIRE(world.run(world.bid(2, 500, world.slot + 4, 4, 1000, TimeInForce::kFok), world.traders[2]));
  world.check_money();
}

TEST_CASE("quote: an offer taken back while it is quoted does not come back afterwards") {
  Quoting world;
  const DeviceId device = world.device(0);
  REQUIRE(world.list(0, device, 500, world.slot, 8));
  const Money bond{units(1'000'000).micros - world.free(0).micros};
  const Quote quote = world.keep(1, 1000, 4);
  CHECK(world.run(CancelOrder{quote.asks[0].ask}, world.traders[0]).error().rule == "quote");
  REQUIRE(world.run(CancelOrder{1}, world.traders[0]));
  CHECK(bond > Money{});
  REQUIRE(world.run(DropQuote{quote.id}, world.traders[1]));
  CHECK(world.free(0) == units(1'000'000));
  CHECK(world.state.market.books.size() == 0);
  REQUIRE(world.list(0, device, 500, world.slot, 8));  // The calendar has it free.
  world.check_money();
}

TEST_CASE(
    "quote: it takes money, room in the budget, and no more than eight of a tenant; strangers see none") {
  Quoting world;
  REQUIRE(world.list(0, world.device(0), 500, world.slot, 96));
  CHECK(world.run(world.question(0), world.traders[0]).error().rule == "self_trade");  // His own.
  Quota quota;
  quota.spend = Money{100};
  REQUIRE(world.limit(world.tenants[1], quota));
  CHECK(world.run(world.question(1), world.traders[1]).error().rule == "spend");
  quota.spend = std::nullopt;
  quota.may_buy = false;
  REQUIRE(world.limit(world.tenants[1], quota));
  CHECK(world.run(world.question(1), world.traders[1]).error().rule == "may_buy");
  REQUIRE(world.limit(world.tenants[1], Quota{}));
  for (int i = 0; i < 8; ++i) world.keep(1, 100, 2);
  CHECK(world.run(world.question(1, 100, 2), world.traders[1]).error().rule == "quotes");
  CHECK(world.run(TakeQuote{{1}}, world.traders[2]).error().reason == Reason::kNotFound);
  MarketRules rules;
  rules.quote_for = {};
  REQUIRE(world.run(SetMarketRules{rules}, world.root));
  CHECK(world.run(world.question(2, 100, 2), world.traders[2]).error().rule == "quote_for");
}

TEST_CASE(
    "quote: one of what was taken back from its seller meanwhile buys nothing, and its money is freed") {
  Quoting world;
  REQUIRE(world.list(0, world.device(0), 500, world.slot, 8));
  REQUIRE(world.run(world.bid(1, 500, world.slot, 8, 1000, TimeInForce::kFok), world.traders[1]));
  const ListCapacity again{.owner = world.traders[1],
                           .bought = {1},
                           .quantity = 1000,
                           .first_slot = world.slot,
                           .slots = 8,
                           .price = 600};
  REQUIRE(world.run(again, world.traders[1]));
  const Quote kept = world.keep(2, 1000, 8);
  REQUIRE(world.run(ReclaimContract{{1}, start_of(world.slot + 4)}, world.traders[0]));
  const auto taken = world.run(TakeQuote{kept.id}, world.traders[2]);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().rule == "contract");
  CHECK(taken.error().message.find("taken back") != std::string::npos);
  CHECK(world.state.market.contracts.ids().size() == 1);
  world.clock = kept.expires;
  REQUIRE(world.run(Tick{}));
  CHECK(world.free(2) == units(1'000'000));
  world.check_money();
}

TEST_CASE("quote: one of a device that failed meanwhile buys nothing") {
  Quoting world;
  world.node("a", 1);
  const DeviceId device = world.device(0);
  REQUIRE(world.list(0, device, 500, world.slot, 8));
  const Quote quote = world.keep(2);
  const DeviceStateChanged failed{device, DeviceState::kHealthy, DeviceState::kQuarantined, "test"};
  apply_record(world.state, world.state.sequence + 1, world.envelope({}), {failed});
  const auto taken = world.run(TakeQuote{quote.id}, world.traders[2]);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().rule == "contract");
  world.clock = quote.expires;
  REQUIRE(world.run(Tick{}));
  CHECK(world.free(2) == units(1'000'000));
}

TEST_CASE("quote: over several offers, best first; a snapshot in the middle changes nothing") {
  Quoting world;
  REQUIRE(world.list(0, world.device(0), 500, world.slot, 8));
  REQUIRE(world.list(2, world.device(2), 400, world.slot, 8));
  KeepQuote question = world.question(1, 1500, 4);
  REQUIRE(world.run(question, world.traders[1]));
  const Quote quote = world.state.market.quotes.begin()->second;
  REQUIRE(quote.asks.size() == 2);
  CHECK(quote.cost.micros == (400 * 1000 + 500 * 500) * 4);
  auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(encode_state(*copy) == encode_state(world.state));
  const Envelope envelope = world.envelope(world.traders[1]);
  const auto here = decide(world.state, envelope, TakeQuote{quote.id});
  const auto there = decide(*copy, envelope, TakeQuote{quote.id});
  REQUIRE(here);
  REQUIRE(there);
  apply_record(world.state, world.state.sequence + 1, envelope, *here);
  apply_record(*copy, copy->sequence + 1, envelope, *there);
  CHECK(encode_state(*copy) == encode_state(world.state));
  CHECK(world.state.market.contracts.ids().size() == 2);
  // What was left of the dearer one is still offered, and the decayed price of a kept one is not.
  REQUIRE(world.run(world.bid(1, 500, world.slot, 4, 500, TimeInForce::kFok), world.traders[1]));
  world.check_money();
}

}  // namespace
}  // namespace tranche::engine
