// SPDX-License-Identifier: Apache-2.0
#include "engine/margin.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using wire::MarginBy;

// Two devices from midnight on; ana holds one for six hours and half of it for six more, bo nothing.
struct Shop : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  Instant midnight{};

  Shop() {
    midnight = clock = std::chrono::floor<std::chrono::days>(clock) + 24h;
    wire::PriceRule rule{.name = "all", .gpu_hour = units(3)};
    REQUIRE(run(SetPriceList{{.name = "2026", .rules = {rule}}}, root).has_value());
    node("a", 2);
  }
  void cost(wire::CapacityCost one) { REQUIRE(run(SetCapacityCost{std::move(one)}, root).has_value()); }
  void hold(Ask ask, Duration length) {
    const JobId job = submit(ana, std::move(ask));
    schedule();
    const LeaseId lease = state.jobs.at(job).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning).has_value());
    clock += length;
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
    REQUIRE(scrub(lease).has_value());
  }
  wire::MarginReport report_by(MarginBy by) {
    REQUIRE(run(Tick{}).has_value());
    return margin_report(state, by, midnight, midnight + 24h);
  }
};

const wire::MarginRow& row(const wire::MarginReport& report, const std::string& what) {
  for (const wire::MarginRow& one : report.items)
    if (one.what == what) return one;
  FAIL("no row " << what);
  return report.items.front();
}

TEST_CASE("margin: what was charged stands beside what the devices cost, held or not") {
  Shop shop;
  shop.cost({.model = "H100", .purchase = {800'000}, .energy = {200'000}});
  shop.hold(gpus(1), 6h);
  shop.hold(gpus(1, 500), 6h);
  const auto nodes = shop.report_by(MarginBy::kNode);
  // 6 h of a device and 6 h of a half at 3; two devices for 12 h at 1.
  CHECK(row(nodes, "a").revenue == units(27));
  CHECK(row(nodes, "a").cost == units(24));
  CHECK(row(nodes, "a").margin == units(3));
  CHECK(row(nodes, "a").held_percent == 37);  // 9 of 24 device-hours.
  const auto tenants = shop.report_by(MarginBy::kTenant);
  CHECK(row(tenants, "acme").revenue == units(27));
  CHECK(row(tenants, "acme").cost == units(9));
  CHECK(row(tenants, "(idle)").cost == units(15));
  CHECK(tenants.margin == units(3));
  const auto devices = shop.report_by(MarginBy::kDevice);
  REQUIRE(devices.items.size() == 2);
  CHECK(devices.revenue == units(27));
  CHECK(devices.cost == units(24));
}

TEST_CASE("margin: the most precise cost holds, from its time on, and survives a restart") {
  Shop shop;
  shop.cost({.lease = units(1)});
  shop.cost({.model = "H100", .lease = units(2)});
  shop.cost({.node = "a", .valid_from = shop.clock + 3h, .lease = units(4)});
  shop.clock += 6h;
  const auto report = shop.report_by(MarginBy::kModel);
  CHECK(report.cost == units(2 * (3 * 2 + 3 * 4)));
  auto again = decode_state(encode_state(shop.state));
  REQUIRE(again);
  CHECK(margin_report(*again, MarginBy::kModel, shop.midnight, shop.midnight + 24h).cost == report.cost);
}

TEST_CASE("margin: costs are refused for the past, for unknown nodes and to others") {
  Shop shop;
  const auto rule_of = [&](wire::CapacityCost cost, PartyId who) {
    const auto decision = shop.run(SetCapacityCost{std::move(cost)}, who);
    return decision ? std::string("taken") : decision.error().rule;
  };
  CHECK(rule_of({.valid_from = shop.clock - 1h}, shop.root) == "valid_from");
  CHECK(rule_of({.node = "nowhere"}, shop.root) == "node");
  CHECK(rule_of({.energy = {-1}}, shop.root) == "cost");
  CHECK(rule_of({}, shop.ana) != "taken");
}

TEST_CASE("margin: of a trade only the fee is the operator's") {
  Shop shop;
  CostLine bought{.key = {.day = shop.midnight, .party = shop.ana}, .amount = units(100)};
  CostLine fee{.key = {.day = shop.midnight, .party = shop.acme, .source = CostSource::kFee},
               .amount = units(2)};
  for (const CostLine& line : {bought, fee}) shop.state.costs.emplace(line.key, line);
  CHECK(row(shop.report_by(MarginBy::kNode), "(exchange)").revenue == units(2));
  CHECK(row(shop.report_by(MarginBy::kTenant), "acme").revenue == units(2));
}

TEST_CASE("margin: simulated devices are left out") {
  Shop shop;
  shop.node("sim-1", 4);
  shop.cost({.lease = units(1)});
  shop.clock += 2h;
  const auto report = shop.report_by(MarginBy::kNode);
  REQUIRE(report.items.size() == 1);
  CHECK(report.cost == units(4));
}

}  // namespace
}  // namespace tranche::engine
