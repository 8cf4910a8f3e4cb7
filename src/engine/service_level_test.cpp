// SPDX-License-Identifier: Apache-2.0
#include "engine/service_level.hpp"

#include <doctest/doctest.h>

#include "engine/cost.hpp"
#include "engine/decide.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

struct Promised : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 1);
  LevelKey key{acme, "gold"};
  std::uint64_t records = 0;

  Promised() {
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(2)}}};
    REQUIRE(run(SetPriceList{list}, root));
    REQUIRE(run(TopUp{acme, units(100), "", ""}, root));
  }
  Decision promise(const LevelTerms& terms) { return run(SetLevel{key, terms}, root); }
  const ServiceLevel& level() { return state.work.levels.at(key); }
  void begin(JobId id) {
    schedule();
    REQUIRE(report(state.jobs.at(id).leases.front(), LeaseState::kRunning));
    schedule();
  }
  // Runs for an hour and is charged for it.
  void work_and_end(JobId id) {
    const LeaseId lease = state.jobs.at(id).leases.front();
    const Instant began = clock;
    clock += hours(1);
    ReportMeters command{.node = machine};
    command.records.push_back({.lease = lease,
                               .epoch = state.leases.at(lease).epoch,
                               .sequence = ++records,
                               .device = state.leases.at(lease).slices.front().device,
                               .from = began,
                               .to = clock});
    REQUIRE(run(command));
    REQUIRE(scrub(lease));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
    schedule();
  }
  [[nodiscard]] Money credit() const { return balance(state.ledger, credit_account(state, acme)); }
};

TEST_CASE("service level: a start in time is kept, and nothing is given back") {
  Promised world;
  REQUIRE(world.promise({.start_within = minutes(5), .credit_percent = 10}));
  const JobId job = world.submit(world.ana, gpus(1));
  world.begin(job);
  world.work_and_end(job);
  CHECK(world.level().kept == 1);
  CHECK(world.level().missed == 0);
  CHECK(world.credit() == units(98));
}

TEST_CASE(
    "service level: a late start is missed, named, and a tenth of the job's cost comes back at its end") {
  Promised world;
  REQUIRE(world.promise({.start_within = minutes(5), .credit_percent = 10}));
  const JobId first = world.submit(world.ana, gpus(1));
  world.begin(first);
  const JobId late = world.submit(world.ana, gpus(1));
  world.clock += minutes(4);
  world.work_and_end(first);
  world.begin(late);
  CHECK(world.level().missed == 1);
  REQUIRE(world.level().misses.size() == 1);
  CHECK(world.level().misses.front().job == late);
  CHECK(world.level().misses.front().late == minutes(59));
  CHECK(world.level().owing == std::vector{late});
  const Money before = world.credit();
  world.work_and_end(late);
  CHECK(world.credit() == Money{before.micros - 1'800'000});
  CHECK(world.state.jobs.at(late).credited == Money{200'000});
  CHECK(world.level().credited == Money{200'000});
  CHECK(world.level().owing.empty());
  const auto costs = cost_report(
      world.state, world.acme, wire::CostBy::kTenant, world.clock - hours(48), world.clock + hours(48));
  CHECK(costs.total == Money{3'800'000});
}

TEST_CASE("service level: jobs that wait too long are at risk before it is too late") {
  Promised world;
  REQUIRE(world.promise({.start_within = minutes(10)}));
  const JobId first = world.submit(world.ana, gpus(1));
  world.begin(first);
  const JobId waits = world.submit(world.ana, gpus(1));
  world.clock += minutes(4);
  REQUIRE(world.run(Tick{}));
  CHECK(levels_at_risk(world.state, world.level(), 10).empty());
  world.clock += minutes(2);
  REQUIRE(world.run(Tick{}));
  const auto risks = levels_at_risk(world.state, world.level(), 10);
  REQUIRE(risks.size() == 1);
  CHECK(risks.front().job == waits);
  CHECK(risks.front().left == minutes(4));
}

TEST_CASE("service level: deadlines that pass are missed, and only jobs of its kind and party count") {
  Promised world;
  REQUIRE(
      world.promise({.kinds = {wire::WorkloadKind::kRender}, .keep_deadlines = true, .credit_percent = 100}));
  Ask ask = gpus(1);
  ask.kind = wire::WorkloadKind::kRender;
  ask.deadline = world.clock + minutes(30);
  const JobId late = world.submit(world.ana, ask);
  world.begin(late);
  world.work_and_end(late);
  CHECK(world.level().missed == 1);
  CHECK(world.credit() == units(100));  // All of it came back.
  ask.kind = wire::WorkloadKind::kTraining;
  ask.deadline = world.clock + minutes(30);
  const JobId other = world.submit(world.ana, ask);
  world.begin(other);
  world.work_and_end(other);
  CHECK(world.level().missed == 1);
}

TEST_CASE("service level: of a booked window, what was not there is at risk, then missed, and given back") {
  Promised world;
  REQUIRE(world.promise({.credit_percent = 100, .delivered_permille = 900}));
  const Instant start = world.clock;
  const auto at = [&](Duration since) {
    world.clock = start + since;
    REQUIRE(world.run(Tick{}));
    world.schedule();
  };
  const auto lose = [&] {
    REQUIRE(world.run(LoseNode{world.machine, "silent"}));
    world.schedule();
  };
  const auto comes_back = [&] {
    REQUIRE(world.run(ReportNode{world.machine, World::hello("gpu-01", 1, "H100-SXM5-80GB")}));
    REQUIRE(world.accept(world.machine));
    world.schedule();
  };
  Ask ask = gpus(1);
  ask.isolation = Isolation::kDedicated;
  REQUIRE(world.run(BookWindows{.ask = ask, .windows = {{start + hours(1), start + hours(11)}}}, world.ana));
  at(hours(1));
  CHECK(levels_at_risk(world.state, world.level(), 10).empty());
  at(hours(2));
  lose();
  at(hours(2) + minutes(20));
  const auto risks = levels_at_risk(world.state, world.level(), 10);
  REQUIRE(risks.size() == 1);
  CHECK(risks.front().booking == ClaimId{1});
  CHECK(risks.front().left == minutes(40));  // An hour of the ten may be missed.
  at(hours(2) + minutes(30));
  comes_back();
  CHECK(levels_at_risk(world.state, world.level(), 10).empty());
  at(hours(4));
  lose();
  at(hours(6));
  comes_back();
  at(hours(11));
  CHECK(world.level().missed == 1);
  CHECK(world.level().kept == 0);
  CHECK(world.level().delivery.permille() == 750);
  REQUIRE(world.level().misses.size() == 1);
  CHECK(world.level().misses.front().delivery.booking == ClaimId{1});
  CHECK(world.credit() == units(105));  // Two and a half hours at two an hour.
}

TEST_CASE("service level: a window that was all there is kept") {
  Promised world;
  REQUIRE(world.promise({.credit_percent = 100, .delivered_permille = 1000}));
  REQUIRE(world.run(
      BookWindows{.ask = gpus(1, 500), .windows = {{world.clock + hours(1), world.clock + hours(11)}}},
      world.ana));
  for (int hour = 0; hour < 11; ++hour) {
    world.clock += hours(1);
    world.schedule();
  }
  CHECK(world.level().kept == 1);
  CHECK(world.level().missed == 0);
  CHECK(world.level().delivery.permille() == 1000);
  CHECK(world.credit() == units(100));
}

TEST_CASE("service level: what promises nothing is refused, and only the operator promises") {
  Promised world;
  CHECK_FALSE(world.promise({}));
  CHECK_FALSE(world.promise({.start_within = minutes(5), .credit_percent = 101}));
  CHECK_FALSE(world.promise({.delivered_permille = 1001}));
  CHECK_FALSE(world.run(SetLevel{world.key, {.start_within = minutes(5)}}, world.ana));
  REQUIRE(world.promise({.start_within = minutes(5)}));
  const std::string bytes = encode_state(world.state);
  const auto read = decode_state(bytes);
  REQUIRE(read);
  CHECK(encode_state(*read) == bytes);
  CHECK(read->work.levels.size() == 1);
  REQUIRE(world.run(RemoveLevel{world.key}, world.root));
  CHECK(world.state.work.levels.empty());
}

TEST_CASE("service level: requests within a service's objective are counted, and a slow hour is credited") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  world.node("gpu-01", 1);
  wire::PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(10)}}};
  REQUIRE(world.run(SetPriceList{list}, world.root));
  REQUIRE(world.run(
      SetLevel{{acme, "chat"}, {.target_permille = 990, .credit_percent = 50, .keep_objectives = true}},
      world.root));
  REQUIRE(world.run(SetService{.name = "chat", .spec = "{}", .versions = {{"v1", gpus(1), "{}"}}}, ana));
  const ServiceKey key{acme, "chat"};
  const JobId replica{world.state.next_job};
  REQUIRE(world.run(AddReplica{key, "v1"}));
  world.clock = hour_start(world.clock) + std::chrono::hours(1);
  world.schedule();
  const LeaseId lease = world.state.jobs.at(replica).leases.front();
  REQUIRE(world.report(lease, LeaseState::kRunning));
  const auto count = [&](std::uint64_t judged, std::uint64_t in_time) {
    REQUIRE(world.run(CountRequests{key, {.requests = judged, .judged = judged, .in_time = in_time}}));
  };
  const auto level = [&]() -> const ServiceLevel& { return world.state.work.levels.at({acme, "chat"}); };
  count(1000, 995);
  world.clock += std::chrono::minutes(30);
  REQUIRE(world.run(ReportMeters{.node = world.state.leases.at(lease).node,
                                 .records = {{.lease = lease,
                                              .epoch = world.state.leases.at(lease).epoch,
                                              .sequence = 1,
                                              .from = world.clock - std::chrono::minutes(30),
                                              .to = world.clock}}}));
  CHECK(world.state.work.services.at(key).hour.charged == units(5));
  count(1000, 900);
  CHECK(levels_at_risk(world.state, level(), 10).size() == 1);
  CHECK(level().kept + level().missed == 0);  // The hour is not over.
  const Money before = world.state.jobs.at(replica).charged;
  world.clock += std::chrono::minutes(31);
  count(10, 10);
  CHECK(level().kept == 1895);
  CHECK(level().missed == 105);
  REQUIRE(level().misses.size() == 1);
  CHECK(level().misses.front().answering == Answering{"chat", 2000, 1895});
  CHECK(level().credited == Money{2'500'000});
  CHECK(world.state.jobs.at(replica).charged.micros == before.micros - 2'500'000);
  CHECK(levels_at_risk(world.state, level(), 10).empty());
  world.clock += std::chrono::hours(1);
  count(1, 1);  // The hour of ten was good.
  CHECK(level().misses.size() == 1);
  CHECK(level().credited == Money{2'500'000});
}

}  // namespace
}  // namespace tranche::engine
