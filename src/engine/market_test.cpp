// SPDX-License-Identifier: Apache-2.0
#include "engine/market.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/market_world.hpp"
#include "engine/record.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

std::string rule_of(const Decision& decision) {
  return decision ? "ok" : decision.error().rule;
}

// What must hold at any time, whatever happened: counted from the orders and contracts themselves.
void check_books(const State& state) {
  std::map<AccountId, Int128> held;
  Int128 escrow = 0;
  std::map<AccountId, Int128> payable;
  const Currency currency = currency_of(state);
  const auto account = [&](PartyId owner, AccountKind kind) {
    return AccountId::make(owner, kind, currency);
  };
  for (const std::uint64_t id : state.market.books.ids()) {
    const MarketOrder& order = *state.market.books.order(id);
    held[account(order.payer, AccountKind::kCredit)] += order.held.micros;
    if (order.side == Side::kBuy) CHECK(order.held.micros == order.price * order.open_area());
  }
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const bool over =
        contract.state == ContractState::kCompleted || contract.state == ContractState::kDefaulted;
    if (!over)
      held[account(contract.seller_pays, AccountKind::kCredit)] +=
          contract.bond.micros - contract.penalty.micros;
    escrow += contract.value.micros - contract.earned.micros - contract.refunded.micros;
    for (const Payout& one : contract.unpaid)
      payable[account(contract.seller_pays, AccountKind::kPayable)] += one.amount.micros;
    if (over) CHECK(contract.value.micros == contract.earned.micros + contract.refunded.micros);
  }
  Int128 sum = 0;
  for (const std::uint64_t id : state.ledger.accounts.ids()) {
    const Account& one = *state.ledger.accounts.find(id);
    sum += one.balance.micros;
    CHECK(one.held.micros == static_cast<std::int64_t>(held[one.id]));
    if (is_bounded(one.id.kind())) CHECK(one.balance.micros - one.held.micros >= 0);
    if (one.id.kind() == AccountKind::kPayable)
      CHECK(one.balance.micros == static_cast<std::int64_t>(payable[one.id]));
    if (one.id.kind() == AccountKind::kEscrow) CHECK(one.balance.micros == static_cast<std::int64_t>(escrow));
  }
  CHECK(static_cast<std::int64_t>(sum) == 0);
  for (const std::uint64_t id : state.market.pieces.ids()) {
    const Piece& piece = *state.market.pieces.find(id);
    for (const std::uint32_t promised : piece.promised) CHECK(promised <= piece.quantity);
  }
}

TEST_CASE("market: list, buy at once, deliver, settle, pay out") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot();
  REQUIRE(world.list(0, world.device(0), 525, slot, 8));  // 2.10 an hour.
  REQUIRE(world.run(world.bid(1, 600, slot, 4, 500, TimeInForce::kIoc), world.traders[1]));
  const Contract& contract = *world.state.market.contracts.find(1);
  CHECK(contract.value.micros == 525 * 500 * 4);  // The price of the ask, not of the bid.
  CHECK(world.credit(1).micros == units(1'000'000).micros - contract.value.micros);
  CHECK(world.free(1) == world.credit(1));
  check_books(world.state);
  world.clock += hours(1);
  REQUIRE(world.run(Tick{}));
  CHECK(contract.state == ContractState::kCompleted);
  const std::int64_t fee = contract.value.micros * 200 / 10'000;
  CHECK(balance(world.state.ledger, world.account(world.tenants[0], AccountKind::kPayable)).micros ==
        contract.value.micros - fee);
  check_books(world.state);
  const Money value = contract.value;
  world.clock += hours(25);
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.contracts.empty());
  CHECK(world.credit(0).micros == units(1'000'000).micros + value.micros - fee);
  CHECK(world.state.market.reliability.at(world.traders[0]).delivered == 500 * 3600);
  check_books(world.state);
}

TEST_CASE("market: sixty-four buyers for the last slot: one wins, the others are told what is left") {
  MarketWorld world(65);
  const std::int64_t slot = world.now_slot() + 1;
  REQUIRE(world.list(64, world.device(64), 500, slot, 1));
  int winners = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const auto decision = world.run(world.bid(i, 500, slot, 1, 1000, TimeInForce::kFok), world.traders[i]);
    winners += decision.has_value();
    if (decision) continue;
    CHECK(decision.error().rule == "fill_or_kill");
    CHECK(decision.error().limit == 0);
    CHECK(decision.error().message == "nothing is offered in that window");
  }
  CHECK(winners == 1);
  check_books(world.state);
}

TEST_CASE("market: the seller's node dies: the rest is refunded to the second, with a penalty") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot();
  REQUIRE(world.list(0, world.device(0), 400, slot, 4));
  REQUIRE(world.run(world.bid(1, 400, slot, 4, 1000), world.traders[1]));
  const Money value = world.state.market.contracts.find(1)->value;
  world.clock += minutes(15);
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]));
  CHECK(world.state.market.contracts.find(1)->state == ContractState::kInterrupted);
  check_books(world.state);
  world.clock += hours(1);
  REQUIRE(world.run(Tick{}));
  const Contract& contract = *world.state.market.contracts.find(1);
  CHECK(contract.state == ContractState::kDefaulted);
  CHECK(contract.refunded.micros == value.micros * 3 / 4);
  CHECK(contract.penalty.micros == value.micros * 3 / 4 / 10);
  CHECK(world.credit(1).micros ==
        units(1'000'000).micros - value.micros + contract.refunded.micros + contract.penalty.micros);
  CHECK(world.state.market.reliability.at(world.traders[0]).delivered == 1000 * 900);
  check_books(world.state);
}

TEST_CASE("market: an equal piece at no higher price takes the place of one that failed") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot();
  REQUIRE(world.list(0, world.device(0), 400, slot, 8));
  REQUIRE(world.run(world.bid(1, 400, slot, 8, 1000), world.traders[1]));
  REQUIRE(world.list(2, world.device(2), 390, slot, 8));
  world.clock += minutes(20);
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]));
  CHECK(world.state.market.contracts.find(1)->state == ContractState::kDefaulted);
  const Contract* substitute = world.state.market.contracts.find(2);
  REQUIRE(substitute != nullptr);
  CHECK(substitute->buyer == world.traders[1]);
  CHECK(substitute->seller == world.traders[2]);
  CHECK(substitute->end == start_of(slot + 8));
  CHECK(substitute->start == world.clock);
  check_books(world.state);
}

TEST_CASE("market: refusals name the rule") {
  MarketWorld world(3, units(1));
  const std::int64_t slot = world.now_slot();
  const DeviceId device = world.device(0);
  CHECK(rule_of(world.list(1, device, 400, slot, 4)) == "not_found");  // Not his.
  CHECK(rule_of(world.list(0, world.device(0, "H100", false), 400, slot, 4)) == "acceptance");
  REQUIRE(world.list(0, device, 400, slot, 4));
  CHECK(rule_of(world.list(0, device, 400, slot + 3, 4)) == "calendar");
  CHECK(rule_of(world.run(world.bid(1, 400, slot, 4, 1000), world.traders[1])) == "credit");
  CHECK(rule_of(world.run(world.bid(1, 400, slot - 1, 4, 10), world.traders[1])) == "window");
  CHECK(rule_of(world.run(world.bid(1, 100, slot, 4, 100, TimeInForce::kIoc), world.traders[1])) ==
        "immediate");
  Quota quota;
  quota.may_buy = false;
  REQUIRE(world.limit(world.tenants[1], quota));
  CHECK(rule_of(world.run(world.bid(1, 400, slot, 1, 100), world.traders[1])) == "may_buy");
  quota.may_buy = true;
  quota.spend = Money{100};
  REQUIRE(world.limit(world.tenants[1], quota));
  CHECK(rule_of(world.run(world.bid(1, 400, slot, 1, 100), world.traders[1])) == "spend");
  REQUIRE(world.run(world.bid(2, 400, slot, 1, 100), world.traders[2]));
  REQUIRE(world.run(SetMarketRules{{.collar_percent = 20}}, world.root));
  CHECK(rule_of(world.run(world.bid(2, 481, slot, 1, 100), world.traders[2])) == "collar");
  CHECK(rule_of(world.run(CancelOrder{1}, world.traders[2])) == "not_found");
  check_books(world.state);
}

TEST_CASE("market: a refusal says which rule stood in the way, and what would pass") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 1;
  const auto refusal = [&](PlaceOrder bid, std::size_t who) {
    bid.time_in_force = TimeInForce::kIoc;
    const auto decision = world.run(bid, world.traders[who]);
    REQUIRE_FALSE(decision);
    return decision.error();
  };
  const auto offer =
      [&](std::int64_t first, std::uint32_t quantity_min, std::uint32_t slots_min, Audience to) {
        return world.run(ListCapacity{.owner = world.traders[0],
                                      .device = world.device(0),
                                      .quantity = 1000,
                                      .first_slot = first,
                                      .slots = 8,
                                      .price = 400,
                                      .quantity_min = quantity_min,
                                      .slots_min = slots_min,
                                      .audience = std::move(to)},
                         world.traders[0]);
      };
  REQUIRE(offer(slot, 500, 4, {}));
  const Refusal short_one = refusal(world.bid(1, 500, slot, 2, 1000), 1);
  CHECK(short_one.rule == "length_min");
  CHECK(short_one.message.find("1h at least") != std::string::npos);
  CHECK(refusal(world.bid(1, 500, slot, 4, 250), 1).message.find("0.5 at least") != std::string::npos);
  CHECK(refusal(world.bid(1, 100, slot, 4, 1000), 1).fix.find("raise the limit to 1.60/h") !=
        std::string::npos);
  CHECK(refusal(world.bid(1, 500, slot, 12, 1000), 1).message.find("not all of the window") !=
        std::string::npos);
  CHECK(refusal(world.bid(0, 500, slot, 4, 1000), 0).rule == "self_trade");

  REQUIRE(offer(slot + 20, 0, 1, {{}, {wire::WorkloadKind::kInference}}));
  const Refusal kinds = refusal(world.bid(1, 500, slot + 20, 4, 1000), 1);
  CHECK(kinds.rule == "kinds");
  CHECK(kinds.fix.find("--kind inference") != std::string::npos);
  REQUIRE(offer(slot + 40, 0, 1, {{world.tenants[2]}, {}}));
  CHECK(refusal(world.bid(1, 500, slot + 40, 4, 1000), 1).rule == "audience");
  PlaceOrder unknown = world.bid(1, 500, slot, 4, 1000);
  unknown.book = 0;
  unknown.instrument.model = "L40S";  // Known, and nobody has one here.
  CHECK(refusal(unknown, 1).message == "nothing like that is traded here");
  check_books(world.state);
}

TEST_CASE("market: a bid that would rest beside an offer of its own tenant is refused") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 1;
  REQUIRE(world.list(0, world.device(0), 400, slot, 4));
  const Money before = world.free(0);
  CHECK(rule_of(world.run(world.bid(0, 400, slot, 4, 1000), world.traders[0])) == "self_trade");
  CHECK(world.free(0) == before);
  CHECK(world.state.market.books.size() == 1);
}

TEST_CASE("market: a listing for some is closed to others") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 1;
  REQUIRE(world.run(world.bid(1, 500, slot, 2, 500).book == 1
                        ? Command(PlaceOrder{.party = world.traders[2],
                                             .instrument = {.model = "H100-SXM5-80GB"},
                                             .price = 500,
                                             .first_slot = slot,
                                             .slots = 2,
                                             .quantity = 500})
                        : Command(Tick{}),
                    world.traders[2]));
  REQUIRE(world.list(0, world.device(0), 400, slot, 2, {{world.tenants[1]}, {}}));
  CHECK(world.state.market.contracts.empty());
  CHECK(rule_of(world.run(world.bid(2, 500, slot, 2, 100, TimeInForce::kIoc), world.traders[2])) != "ok");
  REQUIRE(world.run(world.bid(1, 500, slot, 2, 100, TimeInForce::kIoc), world.traders[1]));
  check_books(world.state);
}

TEST_CASE("market: an unsold ask falls to its floor and meets the bid that waits") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 8;
  const DeviceId device = world.device(0);
  REQUIRE(world.run(ListCapacity{.owner = world.traders[0],
                                 .device = device,
                                 .quantity = 1000,
                                 .first_slot = slot,
                                 .slots = 4,
                                 .price = 800,
                                 .floor = 400},
                    world.traders[0]));
  REQUIRE(world.run(world.bid(1, 600, slot, 4, 1000), world.traders[1]));
  CHECK(world.state.market.contracts.empty());
  world.clock += minutes(45);
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.contracts.empty());
  check_books(world.state);
  world.clock += minutes(30);
  REQUIRE(world.run(Tick{}));
  REQUIRE(world.state.market.contracts.size() == 1);
  CHECK(world.state.market.contracts.find(1)->price == 600);
  check_books(world.state);
}

TEST_CASE("market: what was bought can be sold on, in part, and not twice") {
  MarketWorld world;
  const std::int64_t slot = world.now_slot() + 4;
  REQUIRE(world.list(0, world.device(0), 400, slot, 8));
  REQUIRE(world.run(world.bid(1, 400, slot, 8, 1000), world.traders[1]));
  const auto resell = [&](std::uint32_t quantity) {
    return world.run(ListCapacity{.owner = world.traders[1],
                                  .bought = {1},
                                  .quantity = quantity,
                                  .first_slot = slot + 2,
                                  .slots = 2,
                                  .price = 700},
                     world.traders[1]);
  };
  REQUIRE(resell(600));
  CHECK(rule_of(resell(600)) == "contract");
  REQUIRE(world.run(world.bid(2, 700, slot + 2, 2, 600, TimeInForce::kFok), world.traders[2]));
  CHECK(world.state.market.contracts.find(2)->seller == world.traders[1]);
  check_books(world.state);
}

// Anything anybody may do, in any order: the books stay whole, and a restart at any point changes nothing.
TEST_CASE("market: random trading keeps every micro-unit, and a snapshot gives the same state") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;
  for (std::uint64_t seed = 1; seed <= (thorough ? 100U : 4U); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    MarketWorld world(5, units(200));
    std::vector<DeviceId> devices;
    for (std::size_t i = 0; i < 5; ++i) devices.push_back(world.device(i));
    std::uint64_t filled = 0;
    for (int step = 0; step < 1500; ++step) {
      const std::size_t who = random.below(5);
      const std::int64_t first = world.now_slot() + static_cast<std::int64_t>(random.below(8));
      const auto slots = static_cast<std::uint32_t>(1 + random.below(6));
      const auto price = static_cast<std::int64_t>(300 + random.below(300));
      Command command = Tick{};
      switch (random.below(9)) {
        case 0:
          world.clock += std::chrono::seconds(random.below(2400));
          break;
        case 1:
        case 2:
          command = ListCapacity{.owner = world.traders[who],
                                 .device = devices[who],
                                 .quantity = static_cast<std::uint32_t>(1 + random.below(500)),
                                 .first_slot = first,
                                 .slots = slots,
                                 .price = price,
                                 .floor = random.below(2) == 0 ? price / 2 : 0};
          break;
        case 3:
          command = CancelOrder{1 + random.below(world.state.market.next_order)};
          break;
        case 4:
          command = InterruptContract{{1 + random.below(world.state.market.next_contract)}};
          break;
        case 5:
          command = ResumeContract{{1 + random.below(world.state.market.next_contract)}};
          break;
        default: {
          PlaceOrder order = world.bid(who,
                                       price,
                                       first,
                                       slots,
                                       static_cast<std::uint32_t>(1 + random.below(800)),
                                       static_cast<TimeInForce>(random.below(4)));
          order.slots_min = random.below(2) == 0 ? 0 : 1;
          order.expires = world.clock + std::chrono::minutes(1 + random.below(90));
          command = order;
        }
      }
      PartyId actor = world.traders[who];
      if (std::holds_alternative<InterruptContract>(command) ||
          std::holds_alternative<ResumeContract>(command))
        actor = world.root;
      const auto decision = world.run(command, actor);
      if (!decision) continue;
      for (const Event& event : *decision) filled += std::holds_alternative<OrderFilled>(event);
      if (step % 10 == 0) check_books(world.state);
      if (step % 300 != 0) continue;
      const std::string bytes = encode_state(world.state);
      auto again = decode_state(bytes);
      REQUIRE(again);
      CHECK(encode_state(*again) == bytes);
      world.state = std::move(*again);
    }
    CHECK(filled > 50);
    world.clock += hours(24 * 10);
    for (int i = 0; i < 20; ++i) {
      world.clock += hours(30);
      REQUIRE(world.run(Tick{}));
    }
    check_books(world.state);
    CHECK(world.state.market.books.size() == 0);
    CHECK(world.state.market.contracts.empty());
  }
}

}  // namespace
}  // namespace tranche::engine
