// SPDX-License-Identifier: Apache-2.0
// From a lease to money: what runs is charged, exactly, and stops when nothing covers it.
#include "engine/billing.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/cost.hpp"
#include "engine/lease_meter.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

struct Billed : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 4);
  std::uint64_t records = 0;

  explicit Billed(Money gpu_hour = units(2), Money credit = units(100)) {
    if (gpu_hour > Money{}) price(gpu_hour);
    if (credit > Money{}) TRANCHE_CHECK(run(TopUp{acme, credit, "", ""}, root).has_value());
  }
  void price(Money gpu_hour, ChargeBasis basis = ChargeBasis::kAllocated) {
    const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = gpu_hour, .basis = basis}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
  }
  LeaseId start(Ask ask) {
    const JobId job = submit(ana, std::move(ask));
    TRANCHE_CHECK(schedule() > 0);
    const LeaseId lease = state.jobs.at(job).leases.front();
    TRANCHE_CHECK(report(lease, LeaseState::kRunning).has_value());
    return lease;
  }
  // A record for every slice, as agents send them.
  Decision meter(LeaseId id, Instant from, std::int64_t busy = 0) {
    const Lease& lease = state.leases.at(id);
    ReportMeters command{.node = lease.node};
    for (const Slice& slice : lease.slices)
      command.records.push_back({.lease = id,
                                 .epoch = lease.epoch,
                                 .sequence = ++records,
                                 .device = slice.device,
                                 .from = from,
                                 .to = clock,
                                 .device_nanoseconds = busy});
    return run(command);
  }
  [[nodiscard]] Money credit() const { return balance(state.ledger, credit_account(state, acme)); }
  [[nodiscard]] Money held() const {
    const Account* account = find_account(state.ledger, credit_account(state, acme));
    return account == nullptr ? Money{} : account->held;
  }
  [[nodiscard]] std::int64_t sum_of_all() const {
    std::int64_t sum = 0;
    for (const std::uint64_t id : state.ledger.accounts.ids())
      sum += state.ledger.accounts.find(id)->balance.micros;
    return sum;
  }
};

TEST_CASE("billing: what a lease is charged is its seconds times the rate, whatever the records' cut") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Money rate{1 + static_cast<std::int64_t>(random.below(9'999'999))};
    Billed world(rate, units(100'000));
    const auto devices = static_cast<std::uint32_t>(1 + random.below(4));
    const auto milli = static_cast<std::uint32_t>(1 + random.below(1000));
    const LeaseId lease = world.start(gpus(devices, milli));
    const Instant began = world.clock;
    Instant last = began;
    for (int i = 0; i < 50; ++i) {
      world.clock += Duration(static_cast<std::int64_t>(1 + random.below(300'000'000)));
      if (random.below(4) == 0) continue;  // Nothing was said for a while.
      REQUIRE(world.meter(lease, last));
      last = world.clock;
    }
    world.clock += seconds(3);  // After the last record, and still its own.
    REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
    const Int128 exact = Int128{rate.micros} * devices * milli * (world.clock - began).count();
    const auto whole = static_cast<std::int64_t>(exact / (Int128{1000} * 3'600'000'000));
    CHECK(units(100'000).micros - world.credit().micros == whole);
    CHECK(world.state.jobs.begin()->second.charged.micros == whole);
    CHECK(world.held() == Money{});
    CHECK(world.state.meters.empty());
    CHECK(world.sum_of_all() == 0);
    CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
  }
}

TEST_CASE("billing: without a price list nothing is charged, and use is shown all the same") {
  Billed world(Money{}, Money{});
  const LeaseId lease = world.start(gpus(1, 500));
  const Instant began = world.clock;
  world.clock += minutes(10);
  REQUIRE(world.meter(lease, began, 60'000'000'000));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  const auto report = cost_report(
      world.state, world.acme, wire::CostBy::kJob, month_of(world.clock), world.clock + hours(24));
  REQUIRE(report.items.size() == 1);
  CHECK(report.items[0].cost == Money{});
  CHECK(report.items[0].allocated_gpu_milliseconds == 5 * 60 * 1000);
  CHECK(report.items[0].used_gpu_milliseconds == 60'000);
  CHECK(world.sum_of_all() == 0);
}

TEST_CASE("billing: a budget stops a job in time, and is never passed") {
  Billed world(units(60));  // One a minute.
  Quota quota;
  quota.spend = units(90);
  REQUIRE(world.limit(world.acme, quota));
  const LeaseId lease = world.start(gpus(1));
  CHECK(world.held() == units(60));  // The next hour.
  Instant last = world.clock;
  bool revoked = false;
  int rounds = 0;
  while (!revoked && ++rounds < 200) {
    world.clock += minutes(1);
    const auto decision = world.meter(lease, last);
    REQUIRE(decision);
    last = world.clock;
    for (const Event& event : *decision) {
      const auto* stop = std::get_if<LeaseRevoked>(&event);
      if (stop == nullptr) continue;
      revoked = true;
      CHECK(stop->reason == EndReason::kSpendLimit);
      CHECK(stop->message.find("acme") != std::string::npos);
    }
  }
  CHECK(rounds == 89);  // A minute and the grace are kept for saving its work.
  world.clock += seconds(30);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  const Job& job = world.state.jobs.begin()->second;
  CHECK(job.state == JobState::kFailed);
  CHECK(job.reason == EndReason::kSpendLimit);
  CHECK(job.charged.micros == 89'500'000);
  CHECK(spent(world.state, world.acme, world.clock) <= units(90));
  // The next one is refused at the door, and told what would pass.
  const auto refused = world.run(SubmitJob{.ask = gpus(1), .spec = "{}"}, world.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kBudget);
  CHECK(refused.error().where == "acme");
}

TEST_CASE("billing: a limit that covers exactly what a job takes lets it finish") {
  Billed world(units(60), units(10));
  Ask ask = gpus(1);
  ask.time = minutes(10);
  const LeaseId lease = world.start(ask);
  Instant last = world.clock;
  for (int i = 0; i < 10; ++i) {
    world.clock += minutes(1);
    const auto decision = world.meter(lease, last);
    REQUIRE(decision);
    last = world.clock;
    for (const Event& event : *decision) CHECK_FALSE(std::holds_alternative<LeaseRevoked>(event));
  }
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  CHECK(world.credit() == Money{});
}

TEST_CASE("billing: the job's own spend limit ends it, and bounds what is set aside") {
  Billed world(units(60));
  Ask ask = gpus(1);
  ask.spend = units(5);
  CHECK(job_price(world.state, world.ana, ask, Admission::kWithinQuota, world.clock).most == units(5));
  const LeaseId lease = world.start(ask);
  CHECK(world.held() == units(5));
  Instant last = world.clock;
  bool revoked = false;
  for (int i = 0; i < 5 && !revoked; ++i) {
    world.clock += minutes(1);
    const auto decision = world.meter(lease, last);
    last = world.clock;
    for (const Event& event : *decision) revoked = revoked || std::holds_alternative<LeaseRevoked>(event);
  }
  CHECK(revoked);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.state.jobs.begin()->second.charged <= units(5));
}

TEST_CASE("billing: credit is never promised twice, and who waits for it starts when it comes") {
  Billed world(units(2), units(3));
  const JobId first = world.submit(world.ana, gpus(1));
  const JobId second = world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 1);
  CHECK(world.state.jobs.at(first).state == JobState::kStarting);
  const Job& waiting = world.state.jobs.at(second);
  CHECK(waiting.state == JobState::kPending);
  const Actor actor = *actor_of(world.state, world.envelope(world.ana));
  const wire::Why why = explain(world.state, actor, waiting);
  CHECK(why.reason == wire::WaitReason::kBudget);
  REQUIRE(why.refusal);
  CHECK(why.refusal->rule == "credit");
  REQUIRE(world.run(TopUp{world.acme, units(1), "", ""}, world.root));
  CHECK(world.schedule() == 1);
  CHECK(world.held() == units(4));
  CHECK(available(world.state.ledger, credit_account(world.state, world.acme)) == Money{});
}

TEST_CASE("billing: what a lost node did not report is not charged, and its hold is free again") {
  Billed world;
  const LeaseId lease = world.start(gpus(1));
  const Instant began = world.clock;
  world.clock += minutes(30);
  REQUIRE(world.meter(lease, began));
  CHECK(world.credit() == units(99));
  world.clock += minutes(5);
  REQUIRE(world.run(LoseNode{world.machine, "silent"}));
  CHECK(world.credit() == units(99));
  CHECK(world.held() == Money{});
  CHECK(world.state.jobs.begin()->second.state == JobState::kPending);
}

TEST_CASE("billing: a fault of the platform is credited from its beginning") {
  Billed world;
  const LeaseId lease = world.start(gpus(1));
  const Instant began = world.clock;
  world.clock += minutes(30);
  REQUIRE(world.meter(lease, began));
  const Lease& ended = world.state.leases.at(lease);
  REQUIRE(world.run(ReportLease{.node = ended.node,
                                .report = {.lease = lease,
                                           .epoch = ended.epoch,
                                           .state = LeaseState::kEnded,
                                           .at = began + minutes(15),
                                           .reason = EndReason::kDeviceFault}}));
  CHECK(world.credit().micros == 99'500'000);
  CHECK(world.state.jobs.begin()->second.credited.micros == 500'000);
  CHECK(world.sum_of_all() == 0);
}

TEST_CASE("billing: without credit one pays by invoice, and what comes in pays what is owed first") {
  Billed world(units(2), Money{});
  const LeaseId lease = world.start(gpus(1));
  const Instant began = world.clock;
  world.clock += hours(1);
  REQUIRE(world.meter(lease, began));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  const AccountId owing = AccountId::make(world.acme, AccountKind::kReceivable, currency_of(world.state));
  CHECK(balance(world.state.ledger, owing) == Money{-2'000'000});
  REQUIRE(world.run(TopUp{world.acme, units(2), "", ""}, world.root));
  CHECK(balance(world.state.ledger, owing) == Money{});
  CHECK(find_account(world.state.ledger, credit_account(world.state, world.acme)) == nullptr);
  CHECK(world.sum_of_all() == 0);
}

TEST_CASE("billing: work over quota costs the platform's rate, out of what admission set aside") {
  Billed world(Money{}, Money{});
  Settings settings;
  settings.on_demand_gpu_hour = units(3);
  REQUIRE(world.run(ChangeSettings{settings}, world.root));
  Quota quota;
  quota.gpu_milli = at_most(0);
  quota.over_quota = OverQuota::kOnDemand;
  quota.spend = units(3);
  REQUIRE(world.limit(world.acme, quota));
  Ask ask = gpus(1);
  ask.time = hours(1);
  const LeaseId lease = world.start(ask);  // Covered to the last unit: the hold is not counted twice.
  const Instant began = world.clock;
  world.clock += minutes(30);
  REQUIRE(world.meter(lease, began));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  CHECK(spent(world.state, world.acme, world.clock).micros == 1'500'000);
  CHECK(world.state.parties.at(world.acme).usage.spend_reserved == Money{});
}

TEST_CASE("billing: the price is told before anything starts, and the dearest place counts") {
  Billed world(units(2));
  world.node("gpu-02", 1, "A100-SXM4-80GB");
  const PriceList list{.name = "two",
                       .rules = {{.name = "h100", .model = "H100", .gpu_hour = units(4)},
                                 {.name = "rest", .gpu_hour = units(1)}}};
  REQUIRE(world.run(SetPriceList{list}, world.root));
  Ask ask = gpus(1, 500);
  ask.time = hours(3);
  const auto price = job_price(world.state, world.ana, ask, Admission::kWithinQuota, world.clock);
  CHECK(price.rule == "h100");
  CHECK(price.hourly == units(2));
  CHECK(price.set_aside == units(2));
  CHECK(price.most == units(6));
  ask.model = "A100";
  const auto cheap = job_price(world.state, world.ana, ask, Admission::kWithinQuota, world.clock);
  CHECK(cheap.rule == "rest");
  CHECK(cheap.hourly.micros == 500'000);
}

TEST_CASE("billing: a seller whose node dies stops earning, and goes on when it is back") {
  MarketWorld world(2, units(1000));
  const NodeId machine = world.node("gpu-01", 1);
  const DeviceId device = world.state.nodes.at(machine).devices.front();
  REQUIRE(world.run(CertifyCapacity{{device, machine, world.tenants[0], "H100-SXM5-80GB", "", true}},
                    world.root));
  REQUIRE(world.list(0, device, 500, world.now_slot() + 1, 8));
  REQUIRE(world.run(world.bid(1, 500, world.now_slot() + 1, 8, 1000), world.traders[1]));
  const std::uint64_t id = world.state.market.contracts.ids().front();
  world.clock = start_of(world.now_slot() + 1) + minutes(30);
  REQUIRE(world.run(LoseNode{machine, "silent"}));
  CHECK(world.state.market.contracts.find(id)->state == ContractState::kInterrupted);
  world.clock += minutes(30);
  REQUIRE(world.run(ReportNode{machine, World::hello("gpu-01", 1, "H100-SXM5-80GB")}));
  CHECK(world.state.market.contracts.find(id)->state == ContractState::kInterrupted);  // It is tested first.
  REQUIRE(world.accept(machine));
  REQUIRE(world.run(Tick{}));
  const Contract& back = *world.state.market.contracts.find(id);
  CHECK(back.state == ContractState::kAgreed);
  CHECK(back.lost == minutes(30));
  world.clock = back.end;
  REQUIRE(world.run(Tick{}));
  const Contract& over = *world.state.market.contracts.find(id);
  CHECK(over.state == ContractState::kCompleted);
  CHECK(over.refunded.micros == over.value.micros / 4);  // Half an hour of two.
}

TEST_CASE("billing: units are charged once, with the lease, also when steps are done again") {
  Billed world(Money{}, units(100));
  PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(0)}}};
  list.rules.front().per_million["steps"] = units(1'000'000);  // One unit of money a step.
  REQUIRE(world.run(SetPriceList{list}, world.root));
  Ask ask = gpus(1);
  ask.labels = {{"team", "nlp"}};
  const LeaseId lease = world.start(ask);
  const auto steps = [&](std::int64_t done) {
    NoteProgress note{.node = world.machine, .sequence = world.state.nodes.at(world.machine).received + 1};
    note.report = {.lease = lease, .epoch = world.state.leases.at(lease).epoch};
    note.report.unit = WorkUnit::kStep;
    note.report.done = done;
    REQUIRE(world.run(note));
  };
  const Instant began = world.clock;
  steps(3);
  steps(2);  // Begun again from a checkpoint.
  steps(5);
  world.clock += seconds(10);
  REQUIRE(world.meter(lease, began));
  CHECK(world.credit() == units(95));
  world.clock += seconds(10);
  REQUIRE(world.meter(lease, world.clock - seconds(10)));
  CHECK(world.credit() == units(95));
  CHECK(world.state.work.unsettled.empty());
  const auto by_tag = cost_report(
      world.state, world.acme, wire::CostBy::kTag, began - hours(48), world.clock + hours(1), "team");
  REQUIRE(by_tag.items.size() == 1);
  CHECK(by_tag.items.front().what == "nlp");
  CHECK(by_tag.items.front().units.at("steps") == 5);
  CHECK(by_tag.items.front().cost == units(5));
  CHECK(months_charged(world.state, world.acme).size() == 1);
}

}  // namespace
}  // namespace tranche::engine
