// SPDX-License-Identifier: Apache-2.0
#include "engine/metering.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

PriceList flat(Money gpu_hour, ChargeBasis basis = ChargeBasis::kAllocated) {
  return {.name = "list", .valid_from = {}, .rules = {{.name = "all", .gpu_hour = gpu_hour, .basis = basis}}};
}

MeterPlan plan_of(const MarketWorld& world, std::int64_t milli = 1000) {
  return {.lease = {1}, .job = {1}, .party = world.traders[0], .model = "H100-SXM5-80GB", .milli = milli};
}

wire::MeterRecord record(std::uint64_t sequence, Instant from, Instant to, std::int64_t busy = 0) {
  return {.lease = {1},
          .epoch = 1,
          .sequence = sequence,
          .device = {1},
          .from = from,
          .to = to,
          .device_nanoseconds = busy};
}

TEST_CASE("metering: any cut of an interval costs what the whole costs") {
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    const PriceRule rule{.gpu_hour = {static_cast<std::int64_t>(random.below(10'000'000))},
                         .basis = static_cast<ChargeBasis>(random.below(3)),
                         .used_percent = static_cast<std::uint32_t>(random.below(101))};
    const auto milli = static_cast<std::int64_t>(1 + random.below(1000));
    const std::int64_t total = 3'600'000'000LL + static_cast<std::int64_t>(random.below(1'000'000'000));
    // Exact, by wide integers: the same price for all of it at once.
    const Charge whole = charge(rule, milli, Duration(total), total * milli, 0);
    Int128 parts = 0;
    std::int64_t remainder = 0;
    for (std::int64_t at = 0; at < total;) {
      const std::int64_t step =
          std::min<std::int64_t>(total - at, 1 + static_cast<std::int64_t>(random.below(90'000'000)));
      const Charge part = charge(rule, milli, Duration(step), step * milli, remainder);
      parts += part.amount.micros;
      remainder = part.remainder;
      at += step;
    }
    CHECK(static_cast<std::int64_t>(parts) == whole.amount.micros);
    CHECK(remainder == whole.remainder);
  }
}

TEST_CASE("metering: no charge is negative, whatever the clock does") {
  const PriceRule rule{.gpu_hour = units(2), .basis = ChargeBasis::kMixed, .used_percent = 50};
  CHECK(charge(rule, 1000, -hours(1), -5, 0).amount == Money{});
  CHECK(charge(rule, -4, hours(1), 5, 0).amount == Money{});
  CHECK(charge(rule, 1000, hours(1), INT64_MAX, 0).amount == units(2));  // Busy at most all the time.
}

TEST_CASE("metering: a record counts once, and no second twice") {
  MarketWorld world(1, units(100));
  REQUIRE(world.run(SetPriceList{flat(units(2))}, world.root));
  REQUIRE(world.run(OpenMeter{plan_of(world)}));
  const Instant start = world.clock;
  world.clock += hours(1);
  REQUIRE(world.run(RecordUsage{record(1, start, start + minutes(30))}));
  CHECK(world.credit(0) == units(99));
  REQUIRE(world.run(RecordUsage{record(1, start, start + minutes(30))}));
  CHECK(world.credit(0) == units(99));
  // It overlaps what was charged, and reaches into the future: only the half hour in between counts.
  REQUIRE(world.run(RecordUsage{record(2, start, start + hours(5))}));
  CHECK(world.credit(0) == units(98));
  REQUIRE(world.run(CloseMeter{{1}, {}}));
  CHECK(world.free(0) == units(98));
  CHECK(world.state.costs.begin()->second.amount == units(2));
}

TEST_CASE("metering: what was charged after a fault of the platform is given back") {
  MarketWorld world(1, units(100));
  REQUIRE(world.run(SetPriceList{flat(units(2))}, world.root));
  REQUIRE(world.run(OpenMeter{plan_of(world)}));
  const Instant start = world.clock;
  world.clock += hours(1);
  REQUIRE(world.run(RecordUsage{record(1, start, start + hours(1))}));
  REQUIRE(world.run(CloseMeter{{1}, start + minutes(45)}));
  CHECK(world.credit(0).micros == 98'500'000);
}

TEST_CASE(
    "metering: a spend limit is never passed: nothing starts that is not covered, and all stops in time") {
  MarketWorld world(1, units(3));
  REQUIRE(world.run(SetPriceList{flat(units(2))}, world.root));
  REQUIRE(world.run(OpenMeter{plan_of(world)}));
  MeterPlan second = plan_of(world);
  second.lease = {2};
  const auto refused = world.run(OpenMeter{second});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kBudget);
  Instant at = world.clock;
  std::uint64_t sequence = 0;
  while (!world.state.meters.at({1}).exhausted && sequence < 500) {
    world.clock += minutes(1);
    REQUIRE(world.run(RecordUsage{record(++sequence, at, world.clock)}));
    at = world.clock;
    CHECK(world.credit(0) >= Money{});
  }
  CHECK(sequence >= 89);
  CHECK(sequence <= 91);
}

TEST_CASE("metering: budgets speak at 50, 80 and 100 percent, once each") {
  MarketWorld world(1, units(100));
  Quota quota;
  quota.spend = units(10);
  REQUIRE(world.limit(world.tenants[0], quota));
  REQUIRE(world.run(SetPriceList{flat(units(2))}, world.root));
  REQUIRE(world.run(OpenMeter{plan_of(world)}));
  std::vector<std::uint32_t> alerts;
  Instant at = world.clock;
  for (std::uint64_t i = 1; i <= 9; ++i) {
    world.clock += minutes(30);
    const auto decision = world.run(RecordUsage{record(i, at, world.clock)});
    REQUIRE(decision);
    for (const Event& event : *decision) {
      if (const auto* alert = std::get_if<BudgetAlerted>(&event)) alerts.push_back(alert->percent);
    }
    at = world.clock;
  }
  CHECK(alerts == std::vector<std::uint32_t>{50, 80});
}

TEST_CASE("price: the first rule that fits holds, by tenant and by hour, also over midnight") {
  const PartyId acme = PartyId::make(PartyKind::kTenant, 2);
  PriceList list = flat(units(3));
  list.rules.insert(list.rules.begin(),
                    {.name = "night", .minute_from = 22 * 60, .minute_to = 6 * 60, .gpu_hour = units(1)});
  list.rules.insert(list.rules.begin(), {.name = "acme", .party = acme, .gpu_hour = units(2)});
  const Instant midnight = std::chrono::floor<std::chrono::days>(Instant(hours(500'000)));
  const PriceQuery anybody{.model = "H100"};
  const auto at = [&](Duration time) { return price_at({list}, anybody, midnight + time)->rule.name; };
  CHECK(at(hours(12)) == "all");
  CHECK(at(hours(23)) == "night");
  CHECK(at(hours(5)) == "night");
  CHECK(at(hours(6)) == "all");
  PriceQuery of_acme = anybody;
  of_acme.parties = {acme};
  CHECK(price_at({list}, of_acme, midnight)->rule.name == "acme");
  CHECK(price_at({list}, anybody, midnight)->until == midnight + hours(6));
}

}  // namespace
}  // namespace tranche::engine
