// SPDX-License-Identifier: Apache-2.0
// What an earlier version of the exchange left behind: purchases that were counted when they were made, an
// offer, a bid, a contract that had failed, a job that runs. It goes on by the rules of today.
#include <algorithm>
#include <doctest/doctest.h>

#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Three tenants with a hundred each, prices of 8 an hour, and forty minutes of this:
//   owner   lists half a device for two hours at 2.10, one later at 1.60, one much later at 1.80 (floor 1.20)
//   second  buys an hour of the first, runs a job on other capacity, and loses ten minutes of what he bought
//   third   had a bid of 2.00 there when the second offer came
struct History : MarketWorld {
  History() : MarketWorld(3, units(100)) {
    REQUIRE(run(SetPriceList{{.name = "list", .rules = {{.name = "all", .gpu_hour = units(8)}}}}, root));
    const std::int64_t slot = now_slot();
    offer(500, slot, 8, 525, 0);
    REQUIRE(run(bid(1, 600, slot, 4, 500, TimeInForce::kIoc), traders[1]));
    REQUIRE(run(bid(2, 500, slot + 12, 4, 1000), traders[2]));
    offer(1000, slot + 12, 4, 400, 0);
    offer(1000, slot + 20, 8, 450, 300);
    REQUIRE(run(OpenMeter{
        {.lease = {1}, .job = {1}, .party = traders[1], .model = "H100", .milli = 1000, .ahead = 30min}}));
    const Instant began = clock;
    clock += 30min;
    REQUIRE(run(
        RecordUsage{{.lease = {1}, .epoch = 1, .sequence = 1, .device = {9}, .from = began, .to = clock}}));
    REQUIRE(run(InterruptContract{{1}}, traders[0]));
    clock += 10min;
    REQUIRE(run(ResumeContract{{1}}, traders[0]));
    REQUIRE(run(Tick{}));
  }
  void offer(std::uint32_t quantity,
             std::int64_t first,
             std::uint32_t slots,
             std::int64_t price,
             std::int64_t floor) {
    const DeviceId id = device(0);
    REQUIRE(run(ListCapacity{.owner = traders[0],
                             .device = id,
                             .quantity = quantity,
                             .first_slot = first,
                             .slots = slots,
                             .price = price,
                             .floor = floor},
                traders[0]));
  }
  // As a snapshot of then had it: all hours with the purchase, and nothing that would say more.
  void written_before() {
    for (auto& [key, line] : state.costs) {
      line.as_delivered = false;
      line.delivered = {};
      line.bought_time = 0;
    }
    for (const std::uint64_t id : state.market.contracts.ids())
      state.market.contracts.find(id)->counted = Duration::max();
    state = *decode_state(encode_state(state));
  }
  [[nodiscard]] Int128 sum() const {
    Int128 all = 0;
    for (const std::uint64_t id : state.ledger.accounts.ids())
      all += state.ledger.accounts.find(id)->balance.micros;
    return all;
  }
  [[nodiscard]] wire::CostReport costs(std::size_t who) const {
    return cost_report(state, tenants[who], wire::CostBy::kTenant, clock - 24h * 20, clock + 24h);
  }
};

Money effective(const std::string& csv) {
  CHECK(focus_problems(csv) == std::vector<std::string>{});
  const std::string header = csv.substr(0, csv.find('\n'));
  const auto column = std::count(
      header.begin(), header.begin() + static_cast<std::ptrdiff_t>(header.find("EffectiveCost")), ',');
  Money sum{};
  bool quoted = false;
  std::ptrdiff_t at = 0;
  std::string cell;
  for (const char c : csv.substr(header.size() + 1)) {
    if (c == '"') quoted = !quoted;
    if (quoted || (c != ',' && c != '\n')) {
      cell += c;
      continue;
    }
    if (at == column) sum.micros += parse_money(cell).value().micros;
    at = c == '\n' ? 0 : at + 1;
    cell.clear();
  }
  return sum;
}

// All that is still to come of it, decided by the rules of today.
void go_on(History& world) {
  const Instant began = world.clock - 40min;
  const std::int64_t slot = slot_of(began);
  const auto ask_again = [&](std::int64_t price) {
    return world.run(ListCapacity{.owner = world.traders[2],
                                  .bought = {2},
                                  .quantity = 500,
                                  .first_slot = slot + 14,
                                  .slots = 2,
                                  .price = price},
                     world.traders[2]);
  };
  REQUIRE(ask_again(600));  // What was bought then can be sold on now: half of it, for half of the time.
  REQUIRE(world.run(world.bid(1, 600, slot + 14, 2, 500, TimeInForce::kFok), world.traders[1]));
  CHECK(world.state.market.contracts.find(3)->value.micros == 600 * 500 * 2);
  world.clock = began + 1h;
  REQUIRE(world.run(RecordUsage{
      {.lease = {1}, .epoch = 1, .sequence = 2, .device = {9}, .from = began + 30min, .to = world.clock}}));
  REQUIRE(world.run(CloseMeter{{1}, {}}));
  REQUIRE(world.run(Tick{}));
  const Contract& failed = *world.state.market.contracts.find(1);
  CHECK(failed.state == ContractState::kCompleted);
  CHECK(failed.refunded.micros == 175'000);  // Ten of sixty minutes of 1.05,
  CHECK(failed.penalty.micros == 17'500);    // and a tenth of that.
  CHECK(failed.earned.micros == 875'000);
  world.clock = began + 4h;
  REQUIRE(world.run(Tick{}));
  CHECK(world.state.market.contracts.find(2)->earned.micros == 2'000'000);
  CHECK(world.state.market.contracts.find(3)->earned.micros == 600'000);
  world.clock = began + 30h;
  REQUIRE(world.run(Tick{}));  // The dispute windows are over, and the offer of then ran out.
  CHECK(world.state.market.contracts.empty());
  CHECK(world.credit(0).micros == 100'000'000 + 875'000 - 17'500 - 17'500 + 2'000'000 - 40'000);
  CHECK(world.credit(1).micros == 100'000'000 - 1'050'000 + 175'000 + 17'500 - 8'000'000 - 600'000);
  CHECK(world.credit(2).micros == 100'000'000 - 2'000'000 + 600'000 - 12'000);
  for (std::size_t who = 0; who < 3; ++who) CHECK(world.free(who) == world.credit(who));
  CHECK(world.sum() == 0);
}

TEST_CASE("market: what was bought from an earlier version goes on, and is paid to the micro-unit") {
  for (const bool before : {false, true}) {
    CAPTURE(before);
    History world;
    if (before) world.written_before();
    go_on(world);
    const wire::CostReport report = world.costs(1);
    CHECK(report.total.micros == 1'050'000 + 600'000 + 8'000'000 - 175'000);
    const std::string csv =
        focus_csv(world.state, world.tenants[1], world.clock - 24h * 20, world.clock + 24h);
    CHECK(effective(csv) == report.total);
    // Lines of whole cents: 1.65 was bought, and 0.175 came back.
    CHECK(invoice(world.state, world.tenants[1], running_month(world.state, world.tenants[1]))
              .third_party_total.micros == 1'650'000 - 180'000);
    // Its trader is in no subscriber: what he bought is the tenant's.
    const wire::CostReport by_unit = cost_report(
        world.state, world.tenants[1], wire::CostBy::kSubscriber, world.clock - 24h * 20, world.clock + 24h);
    CHECK(by_unit.items.at(0).what == "tenant1");
    // Delivered: 25 minutes of the first, 15 of what was sold on, and an hour of the job. A snapshot of then
    // had counted all of the first purchase.
    CHECK(report.items.at(0).allocated_gpu_milliseconds == ((before ? 30 : 25) + 15 + 60) * 60 * 1000);
  }
}

}  // namespace
}  // namespace tranche::engine
