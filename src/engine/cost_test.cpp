// SPDX-License-Identifier: Apache-2.0
#include "engine/cost.hpp"

#include <doctest/doctest.h>

#include "engine/focus.hpp"
#include "engine/market_world.hpp"

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

TEST_CASE("invoice: lines round half to even, and the total is what they add up to") {
  CHECK(round_to_cents(15'000) == 20'000);
  CHECK(round_to_cents(25'000) == 20'000);
  CHECK(round_to_cents(25'001) == 30'000);
  CHECK(round_to_cents(-15'000) == -20'000);
  CHECK(round_to_cents(-14'999) == -10'000);
  const Spender world;
  const Instant from = month_of(world.clock);
  const wire::InvoiceView bill =
      invoice(world.state, world.tenants[0], from, month_of(from + std::chrono::days(32)));
  std::int64_t sum = 0;
  for (const wire::InvoiceLine& line : bill.lines) {
    CHECK(line.amount.micros % 10'000 == 0);
    sum += line.amount.micros;
  }
  CHECK(sum == bill.total.micros);
  CHECK(bill.total.micros - bill.rounding.micros == units(100).micros - world.credit(0).micros);
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
    bad.replace(bad.find(what), what.size(), with);
    return focus_problems(bad);
  };
  CHECK(broken("Usage,", "Using,").front() == "row 3: ChargeCategory cannot be 'Using'");
  CHECK(broken("USD", "usd").front() == "row 2: BillingCurrency cannot be 'usd'");
  CHECK(broken("BilledCost", "Billed").size() == 2);  // Unknown, and a mandatory one is missing.
  CHECK(broken(",Compute,", ",,").front() == "row 2: ServiceCategory must not be null");
  CHECK(focus_problems("").size() == 1);
}

}  // namespace
}  // namespace tranche::engine
