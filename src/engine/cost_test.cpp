// SPDX-License-Identifier: Apache-2.0
#include "engine/cost.hpp"

#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>

#include "engine/billing.hpp"
#include "engine/focus.hpp"
#include "engine/market_world.hpp"
#include "engine/spend.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// One job that was charged and partly credited, and one purchase on the exchange.
struct Spender : MarketWorld {
  Spender() : MarketWorld(2, units(100)) {
    PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = {2'345'678}}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
    TRANCHE_CHECK(
        run(OpenMeter{{.lease = {1}, .job = {4}, .party = traders[0], .model = "H100", .milli = 500}})
            .has_value());
    const Instant start = clock;
    clock += minutes(50);
    TRANCHE_CHECK(run(RecordUsage{{.lease = {1},
                                   .epoch = 1,
                                   .sequence = 1,
                                   .device = {1},
                                   .from = start,
                                   .to = clock,
                                   .device_nanoseconds = 900'000'000'000,
                                   .units = {{"tokens", 5000}}}})
                      .has_value());
    TRANCHE_CHECK(run(CloseMeter{{1}, start + minutes(40)}).has_value());
    TRANCHE_CHECK(list_and_buy());
  }
  bool list_and_buy() {
    return list(1, device(1), 400, now_slot() + 1, 4).has_value() &&
           run(bid(0, 400, now_slot() + 1, 4, 1000), traders[0]).has_value();
  }
};

TEST_CASE("cost: allocated stands beside used, and the rows add up to the total") {
  const Spender world;
  const Instant from = month_of(world.clock);
  const Instant to = month_of(from + std::chrono::days(32));
  for (const wire::CostBy by : {wire::CostBy::kTenant,
                                wire::CostBy::kUser,
                                wire::CostBy::kJob,
                                wire::CostBy::kModel,
                                wire::CostBy::kKind,
                                wire::CostBy::kDay}) {
    const wire::CostReport report = cost_report(world.state, world.tenants[0], by, from, to);
    std::int64_t sum = 0;
    for (const wire::CostRow& row : report.items) sum += row.cost.micros - row.credited.micros;
    CHECK(sum == report.total.micros);
    CHECK(report.total.micros == units(100).micros - world.credit(0).micros);
  }
  const auto jobs = cost_report(world.state, world.tenants[0], wire::CostBy::kJob, from, to).items;
  REQUIRE(jobs.size() == 2);
  const wire::CostRow& job = jobs[0].what == "exchange" ? jobs[1] : jobs[0];
  CHECK(job.allocated_gpu_milliseconds == 50 * 60 * 1000 / 2);
  CHECK(job.used_gpu_milliseconds == 900'000);
  CHECK(job.idle_percent == 40);
  CHECK(job.units.at("tokens") == 5000);
  CHECK(cost_report(world.state, world.tenants[1], wire::CostBy::kJob, from, to).items.empty());
}

TEST_CASE("cost: what costs less than a micro-unit each has its price by the million") {
  Spender world;
  const auto user = [&] {
    const Instant from = month_of(world.clock);
    return cost_report(world.state, world.traders[0], wire::CostBy::kKind, from, from + hours(24 * 31));
  };
  const auto batch = [&] {
    for (const wire::CostRow& row : user().items)
      if (row.what != "exchange") return row;
    return wire::CostRow{};
  };
  const std::int64_t few = batch().cost.micros - batch().credited.micros;
  CHECK(batch().unit_cost.at("tokens") == Money{few / 5000});
  CHECK(batch().cost_per_million.at("tokens") == Money{few * 200});
  world.clock += minutes(10);
  REQUIRE(world.run(
      OpenMeter{{.lease = {2}, .job = {5}, .party = world.traders[0], .model = "H100", .milli = 500}}));
  const Instant start = world.clock;
  world.clock += minutes(10);
  REQUIRE(world.run(RecordUsage{{.lease = {2},
                                 .epoch = 1,
                                 .sequence = 1,
                                 .device = {1},
                                 .from = start,
                                 .to = world.clock,
                                 .units = {{"tokens", 9'995'000}, {"frames", 3}}}}));
  const std::int64_t all = batch().cost.micros - batch().credited.micros;
  REQUIRE(all > few);
  REQUIRE(all < 10'000'000);
  CHECK(batch().unit_cost.at("tokens") == Money{});
  CHECK(batch().cost_per_million.at("tokens") == Money{all / 10});
  CHECK(batch().unit_cost.at("frames") == Money{all / 3});
  CHECK_FALSE(batch().cost_per_million.contains("frames"));
}

TEST_CASE("cost: a device whose model nobody knows has a name on reports and bills") {
  MarketWorld world(1, units(100));
  const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(6)}}};
  REQUIRE(world.run(SetPriceList{list}, world.root));
  REQUIRE(world.run(OpenMeter{{.lease = {1}, .job = {4}, .party = world.traders[0], .milli = 1000}}));
  const Instant start = world.clock;
  world.clock += minutes(10);
  REQUIRE(world.run(RecordUsage{
      {.lease = {1}, .epoch = 1, .sequence = 1, .device = {1}, .from = start, .to = world.clock}}));
  const Instant from = month_of(world.clock);
  const auto rows =
      cost_report(world.state, world.tenants[0], wire::CostBy::kModel, from, from + hours(24 * 31)).items;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].what == "other devices");
  const wire::InvoiceView bill = invoice(world.state, world.tenants[0], from);
  REQUIRE(bill.lines.size() == 1);
  CHECK(bill.lines[0].description == "Use of other devices");
}

TEST_CASE("invoice: lines round half to even, and the total is what they add up to") {
  CHECK(round_to_cents(15'000) == 20'000);
  CHECK(round_to_cents(25'000) == 20'000);
  CHECK(round_to_cents(25'001) == 30'000);
  CHECK(round_to_cents(-15'000) == -20'000);
  CHECK(round_to_cents(-14'999) == -10'000);
  const Spender world;
  const Instant from = month_of(world.clock);
  const wire::InvoiceView bill = invoice(world.state, world.tenants[0], from);
  std::int64_t sum = 0;
  for (const wire::InvoiceLine& line : bill.lines) {
    CHECK(line.amount.micros % 10'000 == 0);
    sum += line.amount.micros;
  }
  CHECK(sum == bill.total.micros);
  // What was bought on the exchange is paid to its seller, and stands beside.
  REQUIRE(bill.third_party.size() == 1);
  const Contract& bought = *world.state.market.contracts.find(1);
  CHECK(bill.third_party_total.micros == round_to_cents(bought.value.micros));
  CHECK(bill.total.micros - bill.rounding.micros ==
        units(100).micros - world.credit(0).micros - bought.value.micros);
  CHECK_FALSE(bill.final);
}

TEST_CASE("focus: what we export conforms, and the check finds what does not") {
  const Spender world;
  const Instant from = month_of(world.clock);
  const std::string csv =
      focus_csv(world.state, world.tenants[0], from, month_of(from + std::chrono::days(32)));
  CHECK(focus_problems(csv) == std::vector<std::string>{});
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 4);  // Header, use, its credit, the purchase.
  const auto broken = [&](std::string_view what, std::string_view with) {
    std::string bad = csv;
    const std::size_t at = bad.find(what);
    REQUIRE(at != std::string::npos);
    bad.replace(at, what.size(), with);
    const auto problems = focus_problems(bad);
    return problems.empty() ? "nothing was found" : problems.front();
  };
  CHECK(broken(",Usage,", ",Using,") == "row 3: ChargeCategory cannot be 'Using'");
  CHECK(broken("USD", "usd") == "row 2: BillingCurrency cannot be 'usd'");
  CHECK(broken("BilledCost", "Billed") == "column Billed is not of FOCUS 1.2, and has no x_ in front");
  CHECK(broken(",Compute,", ",,") == "row 2: ServiceCategory must not be null");
  CHECK(broken("00:00:00Z", "00:00:00") == "row 2: BillingPeriodEnd cannot be '2020-01-01T00:00:00'");
  CHECK(broken("-01T00", "-41T00").find("cannot be") != std::string::npos);
  CHECK(broken(",Dynamic,", ",Lively,") == "row 2: PricingCategory cannot be 'Lively'");
  CHECK(broken("GPU-Hours", "Hours-GPU") == "row 2: PricingUnit cannot be 'Hours-GPU'");
  CHECK(broken("Other (Compute)", "Other (Media)") ==
        "row 2: ServiceSubcategory 'Other (Media)' is not of its category");
  CHECK(broken("{\"\"contract\"\":", "{\"\"contract\"\":{},\"\"contract\"\":").find("ContractApplied") !=
        std::string::npos);
  CHECK(broken("\n0.00,", "\n1.00,") == "row 2: BilledCost must be 0 where a third party is paid");
  CHECK(broken("\n0.00,", "\n+0.00,") == "row 2: BilledCost cannot be '+0.00'");
  CHECK(broken(",GPU-Hours,Tranche", ",,Tranche") ==
        "row 2: PricingQuantity and PricingUnit are null together or not at all");
  CHECK(broken("exchange/" + text(world.tenants[0]) + ",,", ",Used,") ==
        "row 2: CapacityReservationStatus must be null without a CapacityReservationId");
  CHECK(broken(",,Purchase,", ",,Usage,") == "row 2: ConsumedQuantity must not be null on a row of usage");
  CHECK(broken(",0.00,,Seller", ",1.00,,Seller") ==
        "row 2: EffectiveCost must be 0 where capacity is bought for later charges");
  CHECK(broken("ServiceProviderName\n", "x_odd name\n").find("x_PascalCase") != std::string::npos);
  CHECK(broken("ServiceProviderName\n", "BilledCost\n") == "column BilledCost stands there twice");
  CHECK(broken(",One-Time,", ",\"\",") == "row 2: ChargeFrequency is an empty text, which is not null");
  CHECK(csv.find(",tenant0,Tenant,USD,") != std::string::npos);
  CHECK(csv.find(",tenant0/trader,User,") != std::string::npos);
  CHECK(broken(",tenant0/trader,User,", ",tenant0/trader,,") ==
        "row 2: SubAccountId and SubAccountType are null together or not at all");
  CHECK(focus_problems("").size() == 1);
}

TEST_CASE("focus: the check knows every column of the specification, and nothing else") {
  std::ifstream file(std::string(TRANCHE_SOURCE_DIR) + "/../shared/data/focus12_columns.txt");
  if (!file) {
    std::printf("[skipped] the table of columns is not beside the repository\n");
    return;
  }
  const auto part = [](std::string& line) {
    const std::size_t bar = std::min(line.find(" | "), line.size());
    std::string word = line.substr(0, bar);
    line.erase(0, std::min(bar + 3, line.size()));
    return word;
  };
  std::map<std::string, FocusColumn> known;
  for (const FocusColumn& column : focus_columns())
    if (!column.since_13) known.emplace(column.name, column);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find(" | ") == std::string::npos) continue;
    const std::string name = part(line);
    CAPTURE(name);
    REQUIRE(known.contains(name));
    const FocusColumn& column = known.at(name);
    CHECK((part(line) == "Mandatory") == column.mandatory);
    CHECK((part(line) == "True") == column.nullable);
    CHECK(part(line) == column.type);
    part(line);  // The form in words.
    std::string allowed;
    const std::string list = part(line);
    for (std::size_t at = list.find('\''); at != std::string::npos; at = list.find('\'', at)) {
      const std::size_t end = list.find('\'', at + 1);
      allowed += (allowed.empty() ? "" : "|") + list.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    CHECK(allowed == column.allowed);
    ++count;
  }
  CHECK(count == 57);
  CHECK(known.size() == 57);
}

}  // namespace
}  // namespace tranche::engine
