// SPDX-License-Identifier: Apache-2.0
#include "engine/price.hpp"

#include <doctest/doctest.h>

#include "engine/billing.hpp"
#include "engine/cost.hpp"
#include "engine/lease_meter.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;

Instant utc(int year, unsigned month, unsigned day, Duration clock = {}) {
  return Instant{sys_days{std::chrono::year{year} / std::chrono::month{month} / std::chrono::day{day}}} +
         clock;
}

// Madrid, over the end of summer time on 26 October 2025.
const Zones kZones{
    {"Europe/Madrid", {{Instant{}, 3600}, {utc(2025, 3, 30, 1h), 7200}, {utc(2025, 10, 26, 1h), 3600}}}};

PriceList nights() {
  return {.name = "nights",
          .rules = {{.name = "night",
                     .gpu_hour = units(1),
                     .hours = Hours{"22:00", "06:00", "Europe/Madrid", {}}},
                    {.name = "day", .gpu_hour = units(3)}},
          .zones = kZones};
}

TEST_CASE("price: hours of the day are those of their zone, also in the night when its clocks change") {
  const PriceList list = nights();
  const auto name_at = [&](Instant at) { return price_at({list}, {}, at)->rule.name; };
  CHECK(name_at(utc(2025, 10, 24, 19h + 59min)) == "day");  // 21:59
  CHECK(name_at(utc(2025, 10, 24, 20h)) == "night");        // 22:00 in summer
  CHECK(name_at(utc(2025, 10, 25, 3h + 59min)) == "night");
  CHECK(name_at(utc(2025, 10, 25, 4h)) == "day");    // 06:00
  CHECK(name_at(utc(2025, 10, 26, 4h)) == "night");  // 05:00 in winter
  CHECK(name_at(utc(2025, 10, 26, 5h)) == "day");
  // Nine hours of that night are cheap, and no instant is priced by a rule that does not hold.
  Duration cheap{};
  for (Instant at = utc(2025, 10, 25, 12h); at < utc(2025, 10, 26, 12h);) {
    const auto price = *price_at({list}, {}, at);
    REQUIRE(price.until > at);
    const Instant end = std::min(price.until, utc(2025, 10, 26, 12h));
    for (Instant inside = at; inside < end; inside += 10min) CHECK(name_at(inside) == price.rule.name);
    if (price.rule.name == "night") cheap += end - at;
    at = end;
  }
  CHECK(cheap == 9h);
}

TEST_CASE("price: days of the week, and rules by class, priority, region, tenant and shape") {
  MarketWorld world(2);
  PriceList list{.name = "all", .zones = kZones};
  list.rules = {{.name = "sunday", .hours = Hours{"00:00", "24:00", "Europe/Madrid", {Weekday::kSun}}},
                {.name = "tenant", .party = world.tenants[0]},
                {.name = "shape", .shape = "1g.10gb"},
                {.name = "region", .region = "eu"},
                {.name = "urgent", .priority_min = 80},
                {.name = "hard", .isolation = Isolation::kHard},
                {.name = "over", .on_demand = true},
                {.name = "model", .model = "H100"},
                {.name = "rest"}};
  REQUIRE(world.run(SetPriceList{list}, world.root));
  const Instant monday = utc(2025, 10, 27, 12h);
  const auto name = [&](const PriceQuery& query, Instant at) {
    return price_at({list}, query, at)->rule.name;
  };
  CHECK(name({}, utc(2025, 10, 26, 12h)) == "sunday");
  CHECK(name({}, monday) == "rest");
  CHECK(name({.parties = {world.traders[0], world.tenants[0]}}, monday) == "tenant");
  CHECK(name({.shape = "1g.10gb"}, monday) == "shape");
  CHECK(name({.region = "eu"}, monday) == "region");
  CHECK(name({.priority = 90}, monday) == "urgent");
  CHECK(name({.isolation = Isolation::kHard}, monday) == "hard");
  CHECK(name({.on_demand = true}, monday) == "over");
  CHECK(name({.model = "H100-SXM5-80GB"}, monday) == "model");
}

TEST_CASE("price: a list that makes no sense is refused with the number and name of its rule") {
  MarketWorld world(1);
  const auto problem = [&](PriceRule rule) {
    PriceList list{.name = "list", .rules = {{.name = "good", .gpu_hour = units(1)}, std::move(rule)}};
    list.zones = kZones;
    return world.run(SetPriceList{list}, world.root).error().message;
  };
  CHECK(problem({.name = "low", .gpu_hour = units(-1)}) == "rule 2 ('low'): gpu_hour is 0 to 1000000");
  CHECK(problem({.name = "x", .used_percent = 40}).find("basis: mixed") != std::string::npos);
  CHECK(problem({.name = "x", .basis = ChargeBasis::kUsed, .dimension = wire::ChargeDimension::kMemory})
            .find("counted in compute") != std::string::npos);
  CHECK(
      problem({.name = "x", .hours = Hours{"22:00", "06:00", "Europe/Atlantis", {}}}).find("no time zone") !=
      std::string::npos);
  CHECK(problem({.name = "x", .hours = Hours{"22", "06:00", "Europe/Madrid", {}}}).find("written like") !=
        std::string::npos);
  CHECK(problem({.name = "x", .minute_from = 60, .hours = Hours{"22:00", "06:00", "Europe/Madrid", {}}})
            .find("not both") != std::string::npos);
  CHECK(problem({.name = "x", .party = PartyId::make(PartyKind::kTenant, 999)}).find("no such party") !=
        std::string::npos);
  CHECK(problem({.name = "x", .gpu_hour = units(1), .storage_gib_hour = units(1)}).find("nothing else") !=
        std::string::npos);
  CHECK(problem({.name = "x", .priority_min = 60, .priority_max = 50}).find("priorities") !=
        std::string::npos);
}

TEST_CASE("price: the list names what is charged: compute, memory, or the larger share of the two") {
  const PriceRule compute{.gpu_hour = units(4)};
  const PriceRule memory{.gpu_hour = units(4), .dimension = wire::ChargeDimension::kMemory};
  const PriceRule larger{.gpu_hour = units(4), .dimension = wire::ChargeDimension::kLarger};
  const MeterPlan slice{.milli = 250, .memory_milli = 500};
  CHECK(charge(compute, charged_milli(compute, slice), 1h, 0, 0).amount == units(1));
  CHECK(charge(memory, charged_milli(memory, slice), 1h, 0, 0).amount == units(2));
  CHECK(charge(larger, charged_milli(larger, slice), 1h, 0, 0).amount == units(2));
  CHECK(charged_milli(larger, {.milli = 700, .memory_milli = 500}) == 700);
  CHECK(charged_milli(memory, {.milli = 700}) == 700);  // A meter that was opened before memory was kept.
}

TEST_CASE("cost: what a smaller slice would have saved is told where use was measured") {
  MarketWorld world(1, units(1000));
  REQUIRE(world.run(SetPriceList{{.name = "list", .rules = {{.name = "all", .gpu_hour = units(10)}}}},
                    world.root));
  const Instant start = world.clock;
  const auto use = [&](LeaseId lease, std::int64_t busy_percent, std::int64_t memory_percent) {
    constexpr std::int64_t kMemory = 80'000'000'000;
    REQUIRE(world.run(OpenMeter{{.lease = lease,
                                 .job = {lease.value},
                                 .party = world.traders[0],
                                 .model = "H100",
                                 .milli = 1000,
                                 .memory_milli = 1000,
                                 .memory_bytes = kMemory}}));
    world.clock += 1h;
    REQUIRE(world.run(RecordUsage{{.lease = lease,
                                   .epoch = 1,
                                   .sequence = 1,
                                   .from = world.clock - 1h,
                                   .to = world.clock,
                                   .device_nanoseconds = 36'000'000'000 * busy_percent,
                                   .vram_byte_seconds = kMemory / 100 * memory_percent * 3600}}));
    REQUIRE(world.run(CloseMeter{lease, {}}));
  };
  use({1}, 20, 30);  // Memory decides: 33 % with some air, in twentieths 35 %.
  use({2}, 95, 10);  // Nothing smaller would do.
  use({3}, 0, 0);    // Nothing was measured.
  const auto report =
      cost_report(world.state, world.tenants[0], wire::CostBy::kJob, start - 24h, world.clock);
  for (const wire::CostRow& row : report.items) {
    CAPTURE(row.what);
    CHECK(row.smaller_slice_saves == (row.what == "job_000001" ? Money{6'500'000} : Money{}));
    CHECK(row.smaller_slice_percent == (row.what == "job_000001" ? 65 : 0));
  }
  CHECK(report.smaller_slice_saves == Money{6'500'000});
  // By use alone a smaller slice saves nothing.
  REQUIRE(world.run(
      SetPriceList{
          {.name = "used", .rules = {{.name = "all", .gpu_hour = units(10), .basis = ChargeBasis::kUsed}}}},
      world.root));
  use({4}, 20, 30);
  const auto after = cost_report(world.state, world.tenants[0], wire::CostBy::kJob, start - 24h, world.clock);
  CHECK(after.smaller_slice_saves == Money{6'500'000});
}

}  // namespace
}  // namespace tranche::engine
