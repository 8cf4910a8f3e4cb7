// SPDX-License-Identifier: Apache-2.0
// Work in what was bought: metered like any other, and paid once.
#include "engine/contract_costs.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "engine/cost.hpp"
#include "engine/focus.hpp"
#include "engine/market_claims.hpp"
#include "engine/market_world.hpp"
#include "engine/reconcile.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using wire::CapacityClass;

constexpr std::int64_t kPrice = 1000;  // An hour of a device costs 4.

// One device of the first tenant, of which the second bought two hours.
struct Bought : MarketWorld {
  NodeId node_id = node("a", 1);
  DeviceId gpu = device(0);
  std::uint64_t records = 0;

  explicit Bought(std::uint32_t slots = 8) {
    clock = start_of(now_slot() + 1);
    REQUIRE(run(SetPriceList{{.name = "dear", .rules = {{.name = "dear", .gpu_hour = units(1'000)}}}}, root));
    REQUIRE(list(0, gpu, kPrice, now_slot(), slots).has_value());
    REQUIRE(run(bid(1, kPrice, now_slot(), slots, 1000, TimeInForce::kIoc), traders[1]).has_value());
    REQUIRE(run(Tick{}).has_value());
  }
  LeaseId start(Ask ask) {
    const JobId job = submit(traders[1], std::move(ask));
    schedule();
    const LeaseId lease = state.jobs.at(job).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning).has_value());
    return lease;
  }
  void meter(LeaseId id, Instant from, Duration busy, std::map<std::string, std::int64_t> done = {}) {
    const Lease& lease = state.leases.at(id);
    ReportMeters command{.node = lease.node};
    command.records.push_back({.lease = id,
                               .epoch = lease.epoch,
                               .sequence = ++records,
                               .device = gpu,
                               .from = from,
                               .to = clock,
                               .device_nanoseconds = busy.count() * 1000,
                               .vram_byte_seconds = 5,
                               .units = std::move(done)});
    REQUIRE(run(command).has_value());
  }
  wire::CostRow row(wire::CostBy by, const std::string& what) {
    const Instant day = std::chrono::floor<std::chrono::days>(clock);
    for (const wire::CostRow& one : cost_report(state, tenants[1], by, day - 24h, day + 48h).items)
      if (one.what == what) return one;
    return {};
  }
  std::string job_of(LeaseId id) { return text(state.leases.at(id).job); }
};

TEST_CASE("bought capacity: what runs in it is metered, with units and their cost, and paid once") {
  Bought world;
  const Money paid{units(1'000'000).micros - world.credit(1).micros};
  REQUIRE(paid == units(8));
  Ask ask = gpus(1);
  ask.price_per_hour = {1};  // No price list counts there.
  const LeaseId lease = world.start(ask);
  CHECK(world.state.meters.at(lease).held == Money{});
  const Instant began = world.clock;
  world.clock += 30min;
  world.meter(lease, began, 10min, {{"tokens_out", 1'000}});
  CHECK(units(1'000'000).micros - world.credit(1).micros == paid.micros);

  const wire::CostRow job = world.row(wire::CostBy::kJob, world.job_of(lease));
  CHECK(job.cost == units(2));  // Half an hour of what costs 4 an hour.
  CHECK(job.allocated_gpu_milliseconds == 30 * 60 * 1000);
  CHECK(job.used_gpu_milliseconds == 10 * 60 * 1000);
  CHECK(job.idle_percent == 66);
  CHECK(job.units.at("tokens_out") == 1'000);
  CHECK(job.unit_cost.at("tokens_out") == Money{2'000});
  const wire::CostRow rest = world.row(wire::CostBy::kJob, "exchange");
  CHECK(rest.cost == units(6));
  CHECK(rest.allocated_gpu_milliseconds == 0);  // All that was delivered until now was held by the job.
  const wire::CostRow all = world.row(wire::CostBy::kTenant, "tenant1");
  CHECK(all.cost == paid);
  CHECK(all.allocated_gpu_milliseconds == 30 * 60 * 1000);
  CHECK(all.used_gpu_milliseconds == 10 * 60 * 1000);

  CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
}

TEST_CASE("bought capacity: parts of intervals add up, and what nobody held is idle when it is over") {
  Bought world(4);  // An hour: 4.
  const LeaseId lease = world.start(gpus(1, 333));
  Instant last = world.clock;
  for (const Duration step : std::vector<Duration>{7s, 13min, 11s, 1min, 17min}) {
    world.clock += step;
    world.meter(lease, last, step / 2);
    last = world.clock;
  }
  const Duration held = 31min + 18s;
  const auto exact = static_cast<std::int64_t>(Int128{4'000'000} * 333 * held.count() / 1000 / (1h / 1us));
  CHECK(world.row(wire::CostBy::kJob, world.job_of(lease)).cost.micros == exact);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  world.clock = start_of(world.now_slot()) + 15min;
  while (slot_of(world.clock) < world.state.market.contracts.find(1)->first_slot + 4) world.clock += 15min;
  REQUIRE(world.run(Tick{}).has_value());
  const Contract* contract = world.state.market.contracts.find(1);
  REQUIRE(contract->state == ContractState::kCompleted);
  CHECK(contract->counted == 1h);
  const wire::CostRow all = world.row(wire::CostBy::kTenant, "tenant1");
  CHECK(all.cost == units(4));
  CHECK(all.allocated_gpu_milliseconds == 60 * 60 * 1000);
  const wire::CostRow rest = world.row(wire::CostBy::kJob, "exchange");
  CHECK(rest.cost.micros == 4'000'000 - exact);
  CHECK(rest.idle_percent == 100);
}

TEST_CASE("bought capacity: what was bought for later is not idle before it is there") {
  Bought world;
  REQUIRE(world.run(world.bid(2, 2000, world.now_slot() + 20, 4, 1000), world.traders[2]).has_value());
  const DeviceId other = world.device(0);
  REQUIRE(world.list(0, other, kPrice, world.now_slot() + 20, 4).has_value());
  const Instant day = std::chrono::floor<std::chrono::days>(world.clock);
  const auto report = cost_report(world.state, world.tenants[2], wire::CostBy::kTenant, day, day + 48h);
  REQUIRE(report.items.size() == 1);
  CHECK(report.items[0].cost > Money{});
  CHECK(report.items[0].allocated_gpu_milliseconds == 0);
  CHECK(report.items[0].idle_percent == 0);
}

TEST_CASE("bought capacity: an interruption stops its part of the price with the contract's") {
  Bought world;
  const LeaseId lease = world.start(gpus(1));
  Instant last = world.clock;
  world.clock += 30min;
  world.meter(lease, last, 1min);
  last = world.clock;
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]).has_value());
  world.clock += 5min;  // It saves its work.
  world.meter(lease, last, 1min);
  CHECK(world.row(wire::CostBy::kJob, world.job_of(lease)).cost == units(2));
  CHECK(world.row(wire::CostBy::kTenant, "tenant1").allocated_gpu_milliseconds == 30 * 60 * 1000);
}

TEST_CASE("reconcile: classes say how much of them was busy, work in what was sold, too") {
  Bought world;
  const LeaseId lease = world.start(gpus(1));
  const Instant began = world.clock;
  world.clock += 40min;
  world.meter(lease, began, 25min);
  REQUIRE(world.run(Tick{}).has_value());
  const Device& device = world.state.devices.at(world.gpu);
  const Instant day = std::chrono::floor<std::chrono::days>(began);
  std::int64_t sold = 0, busy = 0;
  for (const DeviceDayUse& use : device_days(world.state, device, day, day + 48h)) {
    const wire::DeviceDay view = view_of(world.state, use);
    CHECK(view.exact);
    for (const wire::ClassSum& one : view.classes) {
      if (one.what == CapacityClass::kSold) sold += one.compute_milli_microseconds;
      if (one.what == CapacityClass::kSold) busy += one.busy_nanoseconds;
      if (one.what != CapacityClass::kSold) CHECK(one.busy_nanoseconds == 0);
    }
  }
  CHECK(sold == 1000 * Duration(40min).count());
  CHECK(busy == 25 * 60 * 1'000'000'000LL);
}

TEST_CASE("reconcile: device time goes to the devices of its lease and to the days it fell on") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  const NodeId node = world.node("gpu-01", 2);
  world.clock = std::chrono::floor<std::chrono::days>(world.clock) + std::chrono::hours(47) + 59min;
  const JobId job = world.submit(ana, gpus(2));
  REQUIRE(world.schedule() == 1);
  const LeaseId lease = world.state.jobs.at(job).leases.front();
  REQUIRE(world.report(lease, LeaseState::kRunning));
  const Instant began = world.clock;
  world.clock += 4min;  // A minute of the first day, three of the second.
  note_busy(world.state, lease, began, world.clock, 4'000'000'001);
  const Instant day = std::chrono::floor<std::chrono::days>(began);
  std::map<Instant, std::int64_t> by_day;
  std::int64_t all = 0;
  for (const DeviceId id : world.state.nodes.at(node).devices)
    for (const DeviceDayUse& use : device_days(world.state, world.state.devices.at(id), day, day + 48h))
      for (const std::int64_t one : use.busy) {
        by_day[use.key.day] += one;
        all += one;
      }
  CHECK(all == 4'000'000'001);
  CHECK(by_day[day] / 10 == 100'000'000);
  CHECK(by_day[day + 24h] / 10 == 300'000'000);
}

TEST_CASE("contract: its buyer gives back what is left, the seller is paid at once and may sell it again") {
  Bought world;
  const LeaseId lease = world.start(gpus(1));
  const AccountId escrow = world.account(kPlatform, AccountKind::kEscrow);
  const auto release = [&](std::size_t who) { return world.run(ReleaseContract{{1}}, world.traders[who]); };
  CHECK(release(0).error().reason == Reason::kNotFound);
  const auto busy = release(1);
  REQUIRE_FALSE(busy);
  CHECK(busy.error().message.find(world.job_of(lease) + " runs in it") != std::string::npos);
  world.clock += 20min;
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  REQUIRE(world.scrub(lease).has_value());
  const Money before = balance(world.state.ledger, escrow);
  REQUIRE(before == units(8));
  REQUIRE(release(1).has_value());
  CHECK(balance(world.state.ledger, escrow) == Money{});
  const Contract* contract = world.state.market.contracts.find(1);
  CHECK(contract->state == ContractState::kCompleted);
  CHECK(contract->earned == units(8));
  CHECK(contract->refunded == Money{});
  CHECK(balance(world.state.ledger, world.account(world.tenants[0], AccountKind::kPayable)).micros ==
        8'000'000 - 160'000);
  CHECK(release(1).error().rule == "contract");
  const ListCapacity again{.owner = world.traders[1],
                           .bought = {1},
                           .quantity = 1000,
                           .first_slot = world.now_slot() + 1,
                           .slots = 2,
                           .price = 10};
  CHECK(world.run(again, world.traders[1]).error().rule == "contract");  // He has nothing to sell any more.
  // The rest is the owner's again, on the calendar and on the exchange.
  CHECK(world.list(0, world.gpu, kPrice, world.now_slot() + 1, 2).has_value());
  CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
}

TEST_CASE("contract: what was sold on, or has not begun, is not given back") {
  Bought world;
  REQUIRE(world
              .run(ListCapacity{.owner = world.traders[1],
                                .bought = {1},
                                .quantity = 1000,
                                .first_slot = world.now_slot() + 2,
                                .slots = 2,
                                .price = 10},
                   world.traders[1])
              .has_value());
  CHECK(world.run(ReleaseContract{{1}}, world.traders[1]).error().fix == "let it run to its end");
  const DeviceId other = world.device(0);
  REQUIRE(world.list(0, other, kPrice, world.now_slot() + 20, 4).has_value());
  REQUIRE(world.run(world.bid(2, kPrice, world.now_slot() + 20, 4, 1000), world.traders[2]).has_value());
  CHECK(world.run(ReleaseContract{{2}}, world.traders[2]).error().fix.starts_with("sell it on"));
}

// Rows of a table by the names of its columns; our cells with commas are the quoted ones.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& table) {
  std::vector<std::vector<std::string>> lines{{""}};
  bool quoted = false;
  for (const char c : table) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      lines.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      lines.push_back({""});
    } else {
      lines.back().back() += c;
    }
  }
  std::vector<std::map<std::string, std::string>> rows;
  for (std::size_t i = 1; i + 1 < lines.size(); ++i) {
    REQUIRE(lines[i].size() == lines[0].size());
    auto& row = rows.emplace_back();
    for (std::size_t column = 0; column < lines[0].size(); ++column) row[lines[0][column]] = lines[i][column];
  }
  return rows;
}

TEST_CASE("bought capacity: the export splits its price over who held it, as it is delivered") {
  Bought world(8);  // Two hours: 8.
  Ask ask = gpus(1, 500);
  ask.labels = {{"team", "vision"}};
  const LeaseId lease = world.start(ask);
  const Instant began = world.clock;
  world.clock += 50min;
  world.meter(lease, began, 20min);
  const auto table = [&] {
    const std::string csv = focus_csv(world.state, world.tenants[1], world.clock - 48h, world.clock + 48h);
    CHECK(focus_problems(csv) == std::vector<std::string>{});
    return rows_of(csv);
  };
  const auto effective = [&] {
    std::int64_t sum = 0;
    for (auto& row : table()) sum += parse_money(row["EffectiveCost"])->micros;
    return sum;
  };
  // Before the hour is settled: 50 of 120 minutes are delivered, and the job held half of them.
  auto rows = table();
  REQUIRE(rows.size() == 3);
  const auto by_status = [&](const std::string& status) {
    for (auto& row : rows)
      if (row["CapacityReservationStatus"] == status) return row;
    return std::map<std::string, std::string>{};
  };
  auto purchase = by_status("");
  CHECK(purchase["ChargeCategory"] == "Purchase");
  CHECK(purchase["ListCost"] == "8.00");
  CHECK(purchase["EffectiveCost"] == "0.00");
  auto used = by_status("Used");
  CHECK(used["ChargeCategory"] == "Usage");
  CHECK(used["EffectiveCost"] == "1.666666");
  CHECK(used["BilledCost"] == "0.00");
  CHECK(used["ListCost"] == "0.00");
  CHECK(used["AllocatedMethodId"] == "held-of-bought-capacity");
  CHECK(used["AllocatedResourceId"] == world.job_of(lease));
  CHECK(used["AllocatedTags"] == R"("{""team"":""vision""}")");
  CHECK(used["PricingQuantity"] == "0.416666");
  CHECK(used["ConsumedQuantity"] == "0.333333");
  CHECK(used["CapacityReservationId"] == purchase["CapacityReservationId"]);
  auto unused = by_status("Unused");
  CHECK(unused["EffectiveCost"] == "1.666667");
  CHECK(unused["AllocatedMethodId"] == "held-of-bought-capacity");
  CHECK(unused["AllocatedResourceId"].empty());
  CHECK(effective() == 8'000'000 * 50 / 120);

  // It fails for twenty minutes, which are refunded: what was delivered is what it cost.
  REQUIRE(world.run(InterruptContract{{1}}, world.traders[0]).has_value());
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kWindowClosed).has_value());
  world.clock += 20min;
  REQUIRE(world.run(ResumeContract{{1}}, world.traders[0]).has_value());
  world.clock = start_of(slot_of(began) + 8);
  REQUIRE(world.run(Tick{}).has_value());
  REQUIRE(world.state.market.contracts.find(1)->state == ContractState::kCompleted);
  const Money refunded = world.state.market.contracts.find(1)->refunded;
  CHECK(refunded.micros == 8'000'000 - 8'000'000 * 100 / 120);
  CHECK(effective() == 8'000'000 - refunded.micros);
  std::int64_t listed = 0;
  for (auto& row : table()) listed += parse_money(row["ListCost"])->micros;
  CHECK(listed == 8'000'000 - refunded.micros);
}

TEST_CASE("bought capacity: what was bought before purchases were counted as delivered counted at once") {
  Bought world(4);
  const LeaseId lease = world.start(gpus(1, 500));
  // As a server of then left it: all hours with the purchase, and a contract that says so.
  for (auto& [key, line] : world.state.costs) {
    line.as_delivered = false;
    line.delivered = {};
    line.bought_time = 0;
  }
  world.state.market.contracts.find(1)->counted = Duration::max();
  const Instant began = world.clock;
  world.clock += 30min;
  world.meter(lease, began, 10min);
  const auto whole = [&] { return world.row(wire::CostBy::kTenant, "tenant1"); };
  CHECK(whole().allocated_gpu_milliseconds == 60 * 60 * 1000);
  CHECK(world.row(wire::CostBy::kJob, world.job_of(lease)).allocated_gpu_milliseconds == 15 * 60 * 1000);
  world.clock = start_of(slot_of(began) + 4);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kWindowClosed).has_value());
  REQUIRE(world.run(Tick{}).has_value());
  CHECK(whole().allocated_gpu_milliseconds == 60 * 60 * 1000);
  CHECK(whole().cost == units(4));
  const std::string csv = focus_csv(world.state, world.tenants[1], world.clock - 48h, world.clock + 48h);
  CHECK(focus_problems(csv) == std::vector<std::string>{});
  std::int64_t effective = 0;
  for (auto& row : rows_of(csv)) effective += parse_money(row["EffectiveCost"])->micros;
  CHECK(effective == 4'000'000);
}

}  // namespace
}  // namespace tranche::engine
