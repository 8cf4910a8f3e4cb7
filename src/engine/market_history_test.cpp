// SPDX-License-Identifier: Apache-2.0
// What the first version of the exchange wrote, as a journal and as a snapshot: purchases, an offer, a bid, a
// contract that had failed, a job that runs. Both are read, go on, and end with the same money.
#include <doctest/doctest.h>
#include <fstream>

#include "base/text.hpp"
#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/market_world.hpp"
#include "engine/record.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

std::string bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

// As it was written then: three tenants with a hundred each, prices of 8 an hour, and forty minutes of this.
//   owner   lists half a device for two hours at 2.10, one later at 1.60, one much later at 1.80 (floor 1.20)
//   second  buys an hour of the first, runs a job on other capacity, and loses ten minutes of what he bought
//   third   had a bid of 2.00 there when the second offer came
struct History {
  std::vector<std::string> journal{};
  std::string snapshot{};

  History() {
    std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/src/engine/testdata/exchange_v1.hex");
    REQUIRE(file);
    for (std::string what, hex; file >> what >> hex;)
      what == "snapshot" ? void(snapshot = bytes_of(hex)) : journal.push_back(bytes_of(hex));
  }
};

struct OldWorld : MarketWorld {
  explicit OldWorld(State read) : MarketWorld(0) {
    state = std::move(read);
    clock = state.now;
    root = state.child(kPlatform, "root");
    tokens[root] = {1};
    for (std::uint64_t i = 0; i < 3; ++i) {
      tenants.push_back(state.child(kPlatform, "tenant" + std::to_string(i)));
      traders.push_back(state.child(tenants.back(), "trader"));
      tokens[traders.back()] = {i + 2};
    }
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

State replayed(const History& history) {
  State state;
  for (const std::string& bytes : history.journal) {
    const auto record = decode_record(bytes);
    REQUIRE_MESSAGE(record, record.error());
    apply_record(state, state.sequence + 1, record->envelope, record->events);
  }
  return state;
}

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
void go_on(OldWorld& world) {
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

TEST_CASE(
    "market: what the first version of the exchange wrote is read, goes on, and is paid to the micro-unit") {
  const History history;
  REQUIRE(history.journal.size() > 20);
  OldWorld from_journal(replayed(history));
  const auto kept = decode_state(history.snapshot);
  REQUIRE(kept);
  OldWorld from_snapshot(*kept);
  for (OldWorld* world : {&from_journal, &from_snapshot}) {
    CAPTURE(world == &from_snapshot);
    go_on(*world);
    const wire::CostReport report = world->costs(1);
    CHECK(report.total.micros == 1'050'000 + 600'000 + 8'000'000 - 175'000);
    const std::string csv =
        focus_csv(world->state, world->tenants[1], world->clock - 24h * 20, world->clock + 24h);
    CHECK(effective(csv) == report.total);
    CHECK(invoice(world->state, world->tenants[1], running_month(world->state, world->tenants[1]))
              .third_party_total.micros == 1'050'000 + 600'000 - 175'000);
    CHECK(encode_state(*decode_state(encode_state(world->state))) == encode_state(world->state));
  }
  // The journal tells when it was delivered: 25 minutes, 15 that were sold on, an hour of a job. A snapshot
  // of then had counted all of the first purchase with the purchase.
  CHECK(from_journal.costs(1).items.at(0).allocated_gpu_milliseconds == (25 + 15 + 60) * 60 * 1000);
  CHECK(from_snapshot.costs(1).items.at(0).allocated_gpu_milliseconds == (30 + 15 + 60) * 60 * 1000);
}

}  // namespace
}  // namespace tranche::engine
