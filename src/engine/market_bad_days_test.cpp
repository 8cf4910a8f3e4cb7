// SPDX-License-Identifier: Apache-2.0
// Bad days of the exchange: races, orders cancelled in the middle, accounts that run dry, nights in which
// clocks change.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <numeric>

#include "base/random.hpp"
#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Nothing appears or vanishes, and nobody owes what he was never lent.
void check_sum(const State& state) {
  Int128 sum = 0;
  for (const std::uint64_t id : state.ledger.accounts.ids()) {
    const Account& account = *state.ledger.accounts.find(id);
    sum += account.balance.micros;
    if (is_bounded(account.id.kind())) CHECK(account.balance.micros >= account.held.micros);
  }
  CHECK(static_cast<std::int64_t>(sum) == 0);
}

// Before anybody offered anything there is no book to name.
PlaceOrder first_bid(const MarketWorld& world,
                     std::int64_t price,
                     std::int64_t slot,
                     std::uint32_t slots,
                     std::uint32_t quantity) {
  PlaceOrder bid = world.bid(1, price, slot, slots, quantity);
  bid.book = 0;
  bid.instrument = {.model = "H100-SXM5-80GB"};
  return bid;
}

TEST_CASE("market: buyers race for a last slot in any order, as often as one likes: one wins each time") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;
  constexpr std::size_t kBuyers = 64;
  MarketWorld world(kBuyers + 1);
  const DeviceId device = world.device(kBuyers);
  Random random(24);
  std::vector<std::size_t> order(kBuyers);
  std::iota(order.begin(), order.end(), 0);
  for (int race = 0; race < (thorough ? 100'000 : 100); ++race) {
    CAPTURE(race);
    world.clock += 15min;
    REQUIRE(world.run(Tick{}));
    const std::int64_t slot = world.now_slot() + 1;
    REQUIRE(world.list(kBuyers, device, 500, slot, 1));
    for (std::size_t i = kBuyers - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    std::size_t winners = 0;
    for (const std::size_t who : order) {
      const TimeInForce until = random.below(2) == 0 ? TimeInForce::kFok : TimeInForce::kIoc;
      const auto bought = world.run(world.bid(who, 500, slot, 1, 1000, until), world.traders[who]);
      winners += bought.has_value();
      if (bought) continue;
      CHECK(bought.error().reason == Reason::kConflict);
      CHECK(bought.error().message == "nothing is offered in that window");
    }
    CHECK(winners == 1);
  }
  check_sum(world.state);
}

TEST_CASE("market: an order cancelled while it fills keeps what it got, and gives back exactly the rest") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 4;
  REQUIRE(world.run(first_bid(world, 600, slot, 4, 2000), world.traders[1]));  // Rests: two devices.
  const std::uint64_t bid = world.state.market.next_order - 1;
  REQUIRE(world.list(0, world.device(0), 500, slot, 4));  // One of them comes.
  const Contract* contract = world.state.market.contracts.find(1);
  REQUIRE(contract != nullptr);
  CHECK(contract->price == 600);  // Of the order that rested.
  const std::int64_t half = 600 * 1000 * 4;
  CHECK(world.credit(1).micros == units(1'000'000).micros - half);
  CHECK(world.free(1).micros == units(1'000'000).micros - 2 * half);
  REQUIRE(world.run(CancelOrder{bid}, world.traders[1]));
  CHECK(world.free(1).micros == units(1'000'000).micros - half);
  CHECK(world.run(CancelOrder{bid}, world.traders[1]).error().reason == Reason::kNotFound);
  // What would have filled the rest finds nobody, and what was bought is delivered.
  REQUIRE(world.list(0, world.device(0), 500, slot, 4));
  CHECK(world.state.market.contracts.find(2) == nullptr);
  CHECK(world.state.parties.at(world.tenants[1]).usage.spend_reserved == Money{});
  world.clock = start_of(slot + 4);
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.contracts.find(1)->earned.micros == half);
  // A seller who takes back an offer that is sold in part takes back the rest of it.
  REQUIRE(world.list(0, world.device(0), 500, world.now_slot() + 4, 4));
  const std::uint64_t ask = world.state.market.next_order - 1;
  REQUIRE(world.run(world.bid(2, 500, world.now_slot() + 4, 4, 400, TimeInForce::kIoc), world.traders[2]));
  const Money bond = world.state.market.contracts.find(2)->bond;
  REQUIRE(world.run(CancelOrder{ask}, world.traders[0]));
  CHECK(world.credit(0).micros - world.free(0).micros == bond.micros);
  const auto late =
      world.run(world.bid(1, 500, world.now_slot() + 4, 4, 400, TimeInForce::kIoc), world.traders[1]);
  CHECK(late.error().message == "nothing is offered in that window");
  check_sum(world.state);
}

TEST_CASE("market: a buyer whose credit runs out gets what he bid for, and can bid for nothing more") {
  MarketWorld world(2, units(10));
  REQUIRE(world.run(SetPriceList{{.name = "list", .rules = {{.name = "all", .gpu_hour = units(8)}}}},
                    world.root));
  const std::int64_t slot = world.now_slot() + 8;
  REQUIRE(world.run(first_bid(world, 1000, slot, 4, 1000), world.traders[1]));  // Four of the ten.
  // A job uses up all that the bid leaves.
  REQUIRE(world.run(OpenMeter{{.lease = {1},
                               .job = {1},
                               .party = world.traders[1],
                               .model = "H100",
                               .milli = 1000,
                               .ahead = 30min}}));
  const Instant began = world.clock;
  world.clock += 2h;
  REQUIRE(world.run(RecordUsage{
      {.lease = {1}, .epoch = 1, .sequence = 1, .device = {1}, .from = began, .to = world.clock}}));
  CHECK(world.credit(1) == units(4));
  CHECK(world.free(1) == Money{});
  const auto more = world.run(world.bid(1, 1000, slot + 8, 4, 1000), world.traders[1]);
  REQUIRE_FALSE(more);
  CHECK(more.error().rule == "credit");
  CHECK(more.error().limit == 0);
  // The seller comes when the buyer has nothing left: he is paid all the same.
  REQUIRE(world.run(CloseMeter{{1}, {}}));
  REQUIRE(world.list(0, world.device(0), 900, slot, 4));
  CHECK(world.state.market.contracts.find(1)->value == units(4));
  CHECK(world.credit(1) == Money{});
  world.clock = start_of(slot + 4);
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.contracts.find(1)->earned == units(4));
  check_sum(world.state);
}

TEST_CASE("market: a night in which clocks change is paid for as long as it is") {
  // In Madrid 25 October 2025, 22:00, until 06:00 are nine hours: 03:00 becomes 02:00.
  const auto at = [](std::chrono::year_month_day day, Duration clock) {
    return Instant{std::chrono::sys_days{day}} + clock;
  };
  using std::chrono::October;
  const Instant from = at(std::chrono::year{2025} / October / 25, 20h);
  const Instant to = at(std::chrono::year{2025} / October / 26, 5h);
  const std::vector<wire::ZoneOffset> madrid{
      {Instant{}, 3600}, {from - 24h * 200, 7200}, {at(std::chrono::year{2025} / October / 26, 1h), 3600}};
  MarketWorld world;
  world.clock = from - 24h;
  REQUIRE(world.run(ChangeParty{.id = world.tenants[1], .name = "tenant1", .time_zone = "Europe/Madrid"},
                    world.root));
  REQUIRE(world.run(ResolveZone{"Europe/Madrid", madrid}));
  const auto slots = static_cast<std::uint32_t>((to - from) / kSlot);
  CHECK(slots == 36);
  REQUIRE(world.list(0, world.device(0), 500, slot_of(from), slots));
  REQUIRE(world.run(world.bid(1, 500, slot_of(from), slots, 1000, TimeInForce::kFok), world.traders[1]));
  const Money value = world.state.market.contracts.find(1)->value;
  CHECK(value == units(18));  // Nine hours at two.
  while (world.clock < to) {
    world.clock += 15min;
    REQUIRE(world.run(Tick{}));
  }
  const Contract& contract = *world.state.market.contracts.find(1);
  CHECK(contract.state == ContractState::kCompleted);
  CHECK(contract.earned == value);
  CHECK(contract.counted == 9h);
  CHECK(world.state.market.reliability.at(world.traders[0]).delivered == 1000 * 9 * 3600);
  // By the buyer's clocks it is on one invoice, and all of its hours are in the costs of that month.
  const CalendarSpan month = span_around(world.state, world.tenants[1], wire::Period::kMonth, world.clock);
  const wire::CostReport report =
      cost_report(world.state, world.tenants[1], wire::CostBy::kTenant, month.from, month.to);
  REQUIRE(report.items.size() == 1);
  CHECK(report.items.front().allocated_gpu_milliseconds == 9 * 3600 * 1000);
  CHECK(report.total == value);
  const wire::InvoiceView bill =
      invoice(world.state, world.tenants[1], running_month(world.state, world.tenants[1]));
  CHECK(bill.third_party_total == value);
  check_sum(world.state);
}

TEST_CASE("market: a window that is no window is none from now on either, for buyers, sellers and quotes") {
  MarketWorld world;
  world.clock = start_of(world.now_slot()) + 5min;  // In the middle of a slot, of which the rest is sold.
  REQUIRE(world.list(0, world.device(0), 500, 0, 4));
  const auto bid = world.run(world.bid(1, 500, 0, 0, 1000, TimeInForce::kIoc), world.traders[1]);
  REQUIRE_FALSE(bid);
  CHECK(bid.error().rule == "window");
  CHECK(world.list(0, world.device(0), 500, 0, 0).error().rule == "window");
  const KeepQuote quote{.party = world.traders[1], .book = 1, .slots = 0, .quantity = 1000};
  CHECK(world.run(quote, world.traders[1]).error().rule == "window");
  // A slot from now on is the rest of the one that runs, and the next.
  REQUIRE(world.run(world.bid(1, 500, 0, 1, 1000, TimeInForce::kFok), world.traders[1]));
  CHECK(world.state.market.contracts.find(1)->end == start_of(world.now_slot() + 2));
}

TEST_CASE("market: nobody waits for a model that does not exist") {
  MarketWorld world;
  PlaceOrder odd = first_bid(world, 500, world.now_slot() + 4, 4, 1000);
  odd.instrument.model = "H10O";
  const auto refused = world.run(odd, world.traders[1]);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "model");
  CHECK(refused.error().fix == "did you mean 'H100'?");
  CHECK(world.state.market.instruments.empty());
  CHECK(world.free(1) == units(1'000'000));
  odd.instrument.model = "H100";
  CHECK(world.run(odd, world.traders[1]));
  odd.instrument.model =
      "Peerless-9000";  // Nobody has one, but for a peer whose devices the operator certified.
  CHECK_FALSE(world.run(odd, world.traders[1]));
  world.device(0, "Peerless-9000");
  CHECK(world.run(odd, world.traders[1]));
}

TEST_CASE("market: whoever finds nothing in his window is told when there is something, and it is so") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 1;
  REQUIRE(world.list(0, world.device(0), 500, slot, 1));
  REQUIRE(world.list(1, world.device(1), 400, slot + 3, 4));  // His own tenant's is no advice to him.
  REQUIRE(world.list(0, world.device(0), 525, slot + 9, 4));
  REQUIRE(world.run(world.bid(2, 500, slot, 1, 1000, TimeInForce::kFok), world.traders[2]));
  PlaceOrder wanted = world.bid(1, 600, slot, 1, 1000, TimeInForce::kFok);
  const auto refused = world.run(wanted, world.traders[1]);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "nothing is offered in that window");
  CHECK(refused.error().fix == "from " + text(start_of(slot + 9)) +
                                   " on something is offered, the best at 2.10/h; or let the order rest");
  wanted.first_slot = slot + 9;
  CHECK(world.run(wanted, world.traders[1]));
  wanted.first_slot = slot + 20;  // Behind all of them there is nothing that could be named.
  CHECK(world.run(wanted, world.traders[1]).error().fix == "choose another window, or let the order rest");
}

TEST_CASE("market: what a refusal says would pass does pass") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 4;
  const auto horizon = static_cast<std::int64_t>(world.state.market.rules.horizon / kSlot);
  const DeviceId device = world.device(0);
  // Too far ahead.
  const auto far = world.list(0, device, 500, world.now_slot() + horizon - 2, 8);
  REQUIRE_FALSE(far);
  CHECK(far.error().rule == "horizon");
  const std::int64_t last = slot_of(world.clock + world.state.market.rules.horizon);
  CHECK(far.error().fix == "let it end at " + text(start_of(last)) + " or before");
  CHECK_FALSE(world.list(0, device, 500, last - 7, 8));
  CHECK(world.list(0, device, 500, last - 8, 8));
  // More than the contract gives.
  REQUIRE(world.list(0, device, 500, slot, 8));
  REQUIRE(world.run(world.bid(1, 500, slot, 4, 500, TimeInForce::kFok), world.traders[1]));
  ListCapacity again{.owner = world.traders[1],
                     .bought = {1},
                     .quantity = 600,
                     .first_slot = slot,
                     .slots = 5,
                     .price = 500};
  const auto much = world.run(again, world.traders[1]);
  REQUIRE_FALSE(much);
  CHECK(much.error().fix ==
        "offer at most 0.5, from " + text(start_of(slot)) + " to " + text(start_of(slot + 4)));
  again.quantity = 500;
  again.slots = 4;
  CHECK(world.run(again, world.traders[1]));
  // A floor above the price, and a price that nobody could mean.
  ListCapacity odd{.owner = world.traders[0],
                   .device = device,
                   .quantity = 1000,
                   .first_slot = slot + 8,
                   .slots = 4,
                   .price = 500,
                   .floor = 501};
  CHECK(world.run(odd, world.traders[0]).error().fix == "give a floor of at most 2.00/h");
  odd.floor = 500;
  CHECK(world.run(odd, world.traders[0]));
  PlaceOrder dear = world.bid(1, 1'000'000'001, slot, 1, 1000);
  CHECK(world.run(dear, world.traders[1]).error().message ==
        "a price is above zero, and at most 4000000.00/h");
  // A tree that does not let him buy.
  REQUIRE(world.run(SetQuota{.party = world.tenants[2], .quota = {.may_buy = false}}, world.root));
  const auto barred = world.run(world.bid(2, 500, slot, 1, 1000), world.traders[2]);
  CHECK(barred.error().rule == "may_buy");
  CHECK(barred.error().fix == "ask its administrator for: tranche quota set tenant2 --buy yes");
  REQUIRE(world.run(SetQuota{.party = world.tenants[2], .quota = {.may_buy = true}}, world.root));
  CHECK(world.run(world.bid(2, 500, slot, 1, 1000), world.traders[2]));
}

}  // namespace
}  // namespace tranche::engine
