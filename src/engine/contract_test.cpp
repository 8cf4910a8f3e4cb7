// SPDX-License-Identifier: Apache-2.0
#include "engine/contract.hpp"

#include <doctest/doctest.h>

#include "engine/billing.hpp"
#include "engine/market_fill.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;

void check_money(const State& state) {
  Money sum{};
  for (const std::uint64_t id : state.ledger.accounts.ids()) {
    const Account& account = *state.ledger.accounts.find(id);
    sum.micros += account.balance.micros;
    CHECK(account.held >= Money{});
    if (is_bounded(account.id.kind()))
      CHECK(account.balance.micros + account.overdraft.micros >= account.held.micros);
  }
  CHECK(sum == Money{});
}

// One device sold for five days.
struct Sold : MarketWorld {
  std::int64_t slot = now_slot();
  DeviceId sold = device(0);

  explicit Sold(std::uint32_t slots = 96 * 5, bool interruptible = false) : MarketWorld(3) {
    TRANCHE_CHECK(run(ListCapacity{.owner = traders[0],
                                   .instrument = {.interruptible = interruptible},
                                   .device = sold,
                                   .quantity = 1000,
                                   .first_slot = slot,
                                   .slots = slots,
                                   .price = 400},
                      traders[0])
                      .has_value());
    TRANCHE_CHECK(run(bid(1, 400, slot, slots, 1000, TimeInForce::kFok), traders[1]).has_value());
  }
  const Contract* contract(std::uint64_t id = 1) const { return state.market.contracts.find(id); }
  void pass(Duration length, Duration step = 10min) {
    for (const Instant end = clock + length; clock < end;) {
      clock += step;
      TRANCHE_CHECK(run(Tick{}).has_value());
    }
  }
  Money payable() const { return balance(state.ledger, account(tenants[0], AccountKind::kPayable)); }
  Money escrow() const { return balance(state.ledger, account(kPlatform, AccountKind::kEscrow)); }
};

TEST_CASE("contract: days long, it is settled every hour once, and paid out a dispute window after each") {
  Sold world;
  const Money value = world.contract()->value;
  world.pass(hours(10));
  CHECK(world.contract()->earned.micros == value.micros / 12);
  CHECK(world.escrow().micros == value.micros - value.micros / 12);
  CHECK(world.credit(0) == units(1'000'000));
  world.pass(hours(24) + 10min);  // What was earned in the first hours can be spent; the contract runs on.
  const std::int64_t net = value.micros / 12 - value.micros / 12 * 200 / 10'000;
  CHECK(world.credit(0).micros == units(1'000'000).micros + net);
  world.pass(hours(24 * 5));
  CHECK(world.contract() == nullptr);
  CHECK(world.escrow() == Money{});
  CHECK(world.payable() == Money{});
  const std::int64_t fee = value.micros * 200 / 10'000;
  CHECK(world.credit(0).micros == units(1'000'000).micros + value.micros - fee);
  CHECK(balance(world.state.ledger, world.account(kPlatform, AccountKind::kFees)).micros == fee);
  CHECK(world.credit(1).micros == units(1'000'000).micros - value.micros);
  const Reliability& record = world.state.market.reliability.at(world.traders[0]);
  CHECK(record.contracts == 1);
  CHECK(record.earned == value);
  check_money(world.state);
  // The fee stands on the seller's invoice.
  const wire::InvoiceView bill =
      invoice(world.state, world.tenants[0], running_month(world.state, world.tenants[0]));
  Money fees{};
  for (const wire::InvoiceLine& line : bill.lines)
    if (line.description == "Fees on what was sold on the exchange") fees = line.amount;
  CHECK(fees > Money{});
}

TEST_CASE(
    "contract: taken back with notice, it ends earlier; the rest and a penalty go to the buyer at once") {
  Sold world(40);  // Ten hours.
  const Money value = world.contract()->value;
  world.pass(hours(2) + 5min, 5min);
  const Money before = world.credit(1);
  CHECK(world.run(ReclaimContract{{1}, world.clock + 1min}, world.traders[0]).error().rule == "notice");
  CHECK(world.run(ReclaimContract{{1}}, world.traders[1]).error().reason == Reason::kNotFound);
  CHECK(world.run(ReclaimContract{{1}}, world.traders[2]).error().reason == Reason::kNotFound);
  REQUIRE(world.run(ReclaimContract{{1}, start_of(world.slot) + hours(5)}, world.traders[0]));
  CHECK(world.contract()->end == start_of(world.slot) + hours(5));
  CHECK(world.contract()->value.micros == value.micros / 2);
  CHECK(world.credit(1).micros == before.micros + value.micros / 2 + value.micros / 2 / 10);
  check_money(world.state);
  world.pass(hours(4));
  CHECK(world.contract()->state == ContractState::kCompleted);
  CHECK(world.contract()->earned.micros == value.micros / 2);
  const Reliability& record = world.state.market.reliability.at(world.traders[0]);
  CHECK(record.sold == 1000 * 36'000);
  CHECK(record.delivered == 1000 * 18'000);
  // What he took back is his again.
  REQUIRE(world.list(0, world.sold, 500, world.slot + 30, 4));
  world.pass(hours(30));
  CHECK(world.escrow() == Money{});
  check_money(world.state);
}

TEST_CASE("contract: capacity sold as interruptible is taken back without penalty, but not without notice") {
  Sold noticed(40, true);
  const Money value = noticed.contract()->value;
  noticed.pass(hours(1));
  const Money before = noticed.credit(1);
  REQUIRE(noticed.run(ReclaimContract{{1}}, noticed.traders[0]));
  CHECK(noticed.contract()->end == start_of(noticed.slot) + hours(1) + 15min);
  CHECK(noticed.credit(1).micros == before.micros + value.micros - value.micros / 8);
  // One that fails in the middle owes a penalty for the notice that it did not give.
  Sold failed(40, true);
  failed.pass(hours(1));
  REQUIRE(failed.run(InterruptContract{{1}}, failed.traders[0]));
  failed.pass(hours(10));
  const std::int64_t quarter = value.micros / 40;
  CHECK(failed.contract()->penalty.micros == quarter / 10);
  check_money(failed.state);
}

TEST_CASE("contract: before it begins it is taken back whole, and something as good is bought instead") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 40;
  REQUIRE(world.list(0, world.device(0), 400, slot, 4));
  REQUIRE(world.run(world.bid(1, 400, slot, 4, 1000, TimeInForce::kFok), world.traders[1]));
  // Better: the same device to oneself, at no higher price.
  const DeviceId better = world.device(2);
  REQUIRE(world.run(ListCapacity{.owner = world.traders[2],
                                 .instrument = {.isolation = Isolation::kDedicated},
                                 .device = better,
                                 .quantity = 1000,
                                 .first_slot = slot,
                                 .slots = 4,
                                 .price = 390},
                    world.traders[2]));
  REQUIRE(world.run(ReclaimContract{{1}, start_of(slot)}, world.traders[0]));
  const Contract* first = world.state.market.contracts.find(1);
  const Contract* second = world.state.market.contracts.find(2);
  CHECK(first->state == ContractState::kDefaulted);
  REQUIRE(second != nullptr);
  CHECK(second->buyer == world.traders[1]);
  CHECK(second->price == 390);
  CHECK(world.state.market.instruments[second->book - 1].instrument.isolation == Isolation::kDedicated);
  check_money(world.state);
}

TEST_CASE("contract: a substitute is bought on busy books, too") {
  Sold world(40);
  const auto offer = [&](bool interruptible, std::int64_t first_slot, std::int64_t price) {
    REQUIRE(world.run(ListCapacity{.owner = world.traders[2],
                                   .instrument = {.interruptible = interruptible},
                                   .device = world.device(2),
                                   .quantity = 1000,
                                   .first_slot = first_slot,
                                   .slots = 40,
                                   .price = price,
                                   .floor = 300},
                      world.traders[2]));
  };
  offer(true, world.slot + 48, 4000);  // No substitute, and cheaper with every tick.
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]));
  const auto ticked = [&] {
    world.clock += 5min;
    const auto events = world.run(Tick{});
    REQUIRE(events);
    return std::any_of(events->begin(), events->end(), [](const Event& event) {
      return std::holds_alternative<OrderRepriced>(event);
    });
  };
  CHECK(ticked());
  CHECK(world.contract(2) == nullptr);
  offer(false, world.slot, 300);
  CHECK_FALSE(ticked());
  REQUIRE(world.contract(2) != nullptr);
  CHECK(world.contract(2)->buyer == world.traders[1]);
  CHECK(world.contract()->state == ContractState::kDefaulted);
  CHECK(ticked());  // The others go on.
  check_money(world.state);
}

TEST_CASE("contract: what is easier taken back, or elsewhere, is no substitute") {
  Sold world(40);
  const auto offer = [&](Instrument instrument) {
    REQUIRE(world.run(ListCapacity{.owner = world.traders[2],
                                   .instrument = std::move(instrument),
                                   .device = world.device(2),
                                   .quantity = 1000,
                                   .first_slot = world.slot,
                                   .slots = 40,
                                   .price = 300},
                      world.traders[2]));
  };
  offer({.interruptible = true});
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]));
  CHECK(world.contract()->state == ContractState::kInterrupted);
  CHECK(world.contract(2) == nullptr);
  offer({});
  world.clock += 5min;
  REQUIRE(world.run(Tick{}));  // On a quiet tick.
  world.clock += 5min;
  REQUIRE(world.run(Tick{}));
  REQUIRE(world.contract(2) != nullptr);
  CHECK(world.contract(2)->price == 300);
  CHECK(world.contract()->state == ContractState::kDefaulted);
  check_money(world.state);
}

TEST_CASE("contract: what was sold on stops and goes on with what it was made of") {
  Sold world(40);
  REQUIRE(world.run(ListCapacity{.owner = world.traders[1],
                                 .bought = {1},
                                 .quantity = 1000,
                                 .first_slot = world.slot,
                                 .slots = 40,
                                 .price = 500},
                    world.traders[1]));
  REQUIRE(world.run(world.bid(2, 500, world.slot, 40, 1000, TimeInForce::kFok), world.traders[2]));
  world.pass(hours(1));
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]));
  world.pass(20min);
  CHECK(world.contract(2)->state == ContractState::kInterrupted);
  world.pass(40min);
  REQUIRE(world.run(ResumeContract{{1}}, world.traders[0]));
  world.pass(20min);
  CHECK(world.contract(2)->state == ContractState::kAgreed);
  world.pass(hours(10));
  CHECK(world.contract(2)->lost == hours(1));
  CHECK(world.contract(2)->refunded.micros == world.contract(2)->value.micros / 10);
  check_money(world.state);
}

TEST_CASE("contract: hours and days of a book have their open, high, low and close") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 300;
  const DeviceId device = world.device(0);
  std::uint32_t at = 0;
  const auto trade = [&](std::int64_t price) {
    REQUIRE(world.list(0, device, price, slot + at, 1));
    REQUIRE(world.run(world.bid(1, price, slot + at++, 1, 1000, TimeInForce::kFok), world.traders[1]));
  };
  world.clock = Instant(std::chrono::floor<std::chrono::days>(world.clock)) + 10min;
  for (const std::int64_t price : {500, 520, 480, 510}) trade(price);
  world.clock += 1h;
  trade(530);
  world.clock += 24h;
  trade(490);
  const BookState& book = world.state.market.instruments[0];
  REQUIRE(book.hours.size() == 3);
  CHECK(book.hours[0].open == 500);
  CHECK(book.hours[0].high == 520);
  CHECK(book.hours[0].low == 480);
  CHECK(book.hours[0].close == 510);
  CHECK(book.hours[0].volume == 4000);
  REQUIRE(book.days.size() == 2);
  CHECK(book.days[0].close == 530);
  CHECK(book.days[0].high == 530);
  CHECK(book.days[1].open == 490);
  const auto copy = decode_state(encode_state(world.state));
  REQUIRE(copy.has_value());
  CHECK(copy->market.instruments[0].days.size() == 2);
}

TEST_CASE(
    "market book: a bid that names no region goes where it gets most for least, and no further than "
    "allowed") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 1;
  const auto offer = [&](std::size_t owner, const std::string& region, std::int64_t price) {
    const DeviceId id{world.next_device++};
    REQUIRE(world.run(CertifyCapacity{{id, {1}, world.tenants[owner], "H100-SXM5-80GB", region, true}},
                      world.root));
    REQUIRE(world.list(owner, id, price, slot, 4));
  };
  offer(0, "us", 500);
  offer(2, "eu", 450);
  PlaceOrder order = world.bid(1, 600, slot, 4, 1000, TimeInForce::kIoc);
  order.book = 0;
  order.instrument = {.model = "H100"};
  CHECK(book_for(world.state, order) == 2);
  order.quantity = 2000;  // Neither has that much: as much as there is, for least.
  CHECK(book_for(world.state, order) == 2);
  order.quantity = 1000;
  order.instrument.region = "us";
  CHECK(book_for(world.state, order) == 1);
  order.instrument.region = "";
  const Rule only{.name = "us only", .then = {.buy_regions = std::vector<std::string>{"us"}}};
  REQUIRE(world.run(SetRules{world.tenants[1], {.rules = {only}}}, world.root));
  CHECK(book_for(world.state, order) == 1);
  REQUIRE(world.run(order, world.traders[1]));
  CHECK(world.state.market.contracts.find(1)->price == 500);
}

TEST_CASE("contract: however many were made at other seconds, they are settled together") {
  MarketWorld world(2);
  constexpr std::size_t kContracts = 60;
  const std::int64_t first = world.now_slot();
  for (std::size_t i = 0; i < kContracts; ++i) {
    const DeviceId device = world.device(0);
    REQUIRE(world.list(0, device, 400, first, 16));
  }
  for (std::size_t i = 0; i < kContracts; ++i) {
    world.clock += 7s;
    REQUIRE(world.run(world.bid(1, 400, first, 16, 1000, TimeInForce::kFok), world.traders[1]));
  }
  std::size_t ticks = 0;
  for (const Instant end = world.clock + 3h; world.clock < end; world.clock += 1s) {
    if (!contracts_due(world.state, world.clock)) continue;
    ++ticks;
    REQUIRE(world.run(Tick{}));
  }
  CHECK(ticks <= 3 * 4);  // Where slots meet, and at no other time.
  for (std::uint64_t id = 1; id <= kContracts; ++id) {
    const Contract& contract = *world.state.market.contracts.find(id);
    CHECK(world.clock - contract.settled <= 1h);
  }
  check_money(world.state);
}

}  // namespace
}  // namespace tranche::engine
