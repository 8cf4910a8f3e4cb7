// SPDX-License-Identifier: Apache-2.0
#include "engine/admission.hpp"

#include <doctest/doctest.h>
#include <map>
#include <vector>

#include "base/random.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

struct Lab : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId unit = create(PartyKind::kSubscriber, acme, "unit");
  PartyId ana = user(unit, "ana");
};

TEST_CASE("admission: the limit is named with its node, use, and what would fit") {
  Lab lab;
  CHECK(lab.limit(lab.acme, {.gpu_milli = at_most(2000)}));
  CHECK(lab.run(SubmitJob{.ask = gpus(1, 500)}, lab.ana));
  const auto refused = lab.run(SubmitJob{.ask = gpus(2)}, lab.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kQuota);
  CHECK(refused.error().rule == "gpu_milli");
  CHECK(refused.error().where == "acme");
  CHECK(refused.error().limit == 2000);
  CHECK(refused.error().used == 500);
  CHECK(refused.error().asked == 2000);
  CHECK(refused.error().fix == "ask for at most 1.5 GPUs, or wait until jobs of acme end");
}

TEST_CASE("admission: the nearest node is asked first") {
  Lab lab;
  CHECK(lab.limit(lab.acme, {.gpu_milli = at_most(1000)}));
  CHECK(lab.limit(lab.unit, {.gpu_milli = at_most(500)}));
  CHECK(lab.run(SubmitJob{.ask = gpus(1)}, lab.ana).error().where == "acme/unit");
}

TEST_CASE("admission: a job gives its quota back when it ends") {
  Lab lab;
  CHECK(lab.limit(lab.ana, {.jobs = at_most(1)}));
  const auto first = lab.run(SubmitJob{.ask = gpus(1)}, lab.ana);
  REQUIRE(first);
  CHECK_FALSE(lab.run(SubmitJob{.ask = gpus(1)}, lab.ana));
  CHECK(lab.run(StopJob{std::get<JobSubmitted>(first->front()).id}, lab.ana));
  CHECK(lab.run(SubmitJob{.ask = gpus(1)}, lab.ana));
}

TEST_CASE("admission: limits by device model, SKU, priority, isolation and time each hold") {
  Lab lab;
  CHECK(lab.run(SetSku{{"small", 250, 20'000'000'000}}, lab.root));
  CHECK(lab.limit(lab.unit,
                  {.devices = {{"H100-SXM5-80GB", at_most(1000)}},
                   .skus = {{"small", at_most(1)}},
                   .wall_time_max = Duration(1h),
                   .priority_max = 60,
                   .isolation = std::vector{Isolation::kHard, Isolation::kSoft}}));
  const auto rule_of = [&](Ask ask) {
    const auto decision = lab.run(SubmitJob{.ask = std::move(ask)}, lab.ana);
    return decision ? "admitted" : decision.error().rule;
  };
  Ask ask = gpus(2);
  ask.model = "H100-SXM5-80GB";
  CHECK(rule_of(ask) == "devices.H100-SXM5-80GB");
  ask = gpus(2, 250);
  ask.sku = "small";
  CHECK(rule_of(ask) == "skus.small");
  ask.sku = "huge";
  CHECK(rule_of(ask) == "sku");
  ask = gpus(1);
  ask.priority = 61;
  CHECK(rule_of(ask) == "priority_max");
  ask = gpus(1);
  ask.isolation = Isolation::kDedicated;
  CHECK(rule_of(ask) == "isolation");
  ask = gpus(1);
  ask.time = 2h;
  CHECK(rule_of(ask) == "wall_time_max");
}

TEST_CASE("admission: a job without a time limit gets the smallest of the tree") {
  Lab lab;
  CHECK(lab.limit(lab.acme, {.wall_time_max = Duration(2h)}));
  CHECK(lab.limit(lab.unit, {.wall_time_max = Duration(3h)}));
  const auto job = lab.run(SubmitJob{.ask = gpus(1)}, lab.ana);
  REQUIRE(job);
  CHECK(std::get<JobSubmitted>(job->front()).ask.time == 2h);
}

TEST_CASE(
    "admission: a job without a spend limit gets the smallest of the tree, and so do the units of one") {
  Lab lab;
  CHECK(lab.limit(lab.acme, {.per_job = {.spend = units(5)}}));
  CHECK(lab.limit(lab.unit, {.per_job = {.spend = units(7)}}));
  const auto job = lab.run(SubmitJob{.ask = gpus(1)}, lab.ana);
  REQUIRE(job);
  CHECK(std::get<JobSubmitted>(job->front()).ask.spend == units(5));
  Ask ask = gpus(1);
  ask.spend = units(6);
  const auto refused = lab.run(SubmitJob{.ask = ask}, lab.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "per_job.spend");
  CHECK(refused.error().message == "acme allows one job at most 5.00, asked 6.00");
  ask.spend = units(4);
  const auto group = lab.run(
      SubmitJob{.ask = ask, .unit = wire::WorkUnit::kFrame, .units = {1, 10}, .unit_tries = 1}, lab.ana);
  REQUIRE(group);
  CHECK(std::get<GroupFormed>(group->back()).ask.spend == units(4));
  ask.spend = {};
  const auto bound = lab.run(
      SubmitJob{.ask = ask, .unit = wire::WorkUnit::kFrame, .units = {1, 10}, .unit_tries = 1}, lab.ana);
  REQUIRE(bound);
  CHECK(std::get<GroupFormed>(bound->back()).ask.spend == units(5));
}

TEST_CASE(
    "admission: a spend limit of nothing for one job, as quotas of before may have, forbids what costs") {
  Lab lab;
  const QuotaSet before{lab.acme, {}, {.per_job = {.spend = Money{}}}};
  apply_record(lab.state, lab.state.sequence + 1, lab.envelope(lab.root), {before});
  CHECK(lab.limit(lab.unit, {.per_job = {.spend = units(5)}}));
  const auto free = lab.run(SubmitJob{.ask = gpus(1)}, lab.ana);
  REQUIRE(free);  // Nothing costs anything yet; once it does, the other limit binds.
  CHECK(std::get<JobSubmitted>(free->front()).ask.spend == units(5));
  const wire::PriceRule rule{.name = "all", .gpu_hour = units(1)};
  REQUIRE(lab.run(SetPriceList{{.name = "list", .rules = {rule}}}, lab.root));
  const auto refused = lab.run(SubmitJob{.ask = gpus(1)}, lab.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "per_job.spend");
  CHECK(refused.error().where == "acme");
  CHECK(lab.run(SubmitJob{.ask = {.instances = 0}}, lab.ana));  // Without a device it is free.
}

TEST_CASE("admission: GPU time of a period is set aside, so it cannot be exceeded") {
  Lab lab;
  CHECK(lab.limit(lab.unit, {.gpu_seconds = at_most(3600)}));
  CHECK(lab.run(SubmitJob{.ask = gpus(1)}, lab.ana).error().fix == "give --time, for example --time 2h");
  Ask half = gpus(1, 500);
  half.time = 1h;
  CHECK(lab.run(SubmitJob{.ask = half}, lab.ana));
  CHECK(lab.run(SubmitJob{.ask = half}, lab.ana));
  CHECK(lab.run(SubmitJob{.ask = half}, lab.ana).error().rule == "gpu_seconds");
}

TEST_CASE(
    "admission: over quota a job runs on demand where the tree allows it and the spend limit covers it") {
  Lab lab;
  Settings settings;
  settings.on_demand_gpu_hour = units(3);
  CHECK(lab.run(ChangeSettings{settings}, lab.root));
  CHECK(
      lab.limit(lab.unit, {.gpu_milli = at_most(0), .spend = units(10), .over_quota = OverQuota::kOnDemand}));
  Ask ask = gpus(1);
  CHECK(lab.run(SubmitJob{.ask = ask}, lab.ana).error().rule ==
        "gpu_milli");  // No time limit: no bound on the cost.
  ask.time = 2h;
  const auto first = lab.run(SubmitJob{.ask = ask}, lab.ana);
  REQUIRE(first);
  CHECK(std::get<JobSubmitted>(first->front()).admission == Admission::kOnDemand);
  CHECK(std::get<JobSubmitted>(first->front()).hold == units(6));
  const auto second = lab.run(SubmitJob{.ask = ask}, lab.ana);
  REQUIRE_FALSE(second);
  CHECK(second.error().reason == Reason::kBudget);
  CHECK(second.error().used == units(6).micros);
}

TEST_CASE("quota: guarantees below a node never exceed its own, whichever of the two is changed") {
  Lab lab;
  const auto guaranteed = [](std::int64_t amount) {
    Quota quota;
    quota.gpu_milli = {.guaranteed = amount, .limit = {}};
    return quota;
  };
  CHECK(lab.limit(kPlatform, {.gpu_milli = at_most(8000)}));
  CHECK(lab.limit(lab.acme, guaranteed(6000)));
  const PartyId other = lab.create(PartyKind::kTenant, kPlatform, "other");
  const auto oversold = lab.limit(other, guaranteed(2001));
  REQUIRE_FALSE(oversold);
  CHECK(oversold.error().rule == "gpu_milli.guaranteed");
  CHECK(lab.limit(other, guaranteed(2000)));
  CHECK(lab.limit(lab.unit, guaranteed(6000)));
  const auto lowered = lab.limit(lab.acme, guaranteed(5999));
  REQUIRE_FALSE(lowered);
  CHECK(lowered.error().limit == 5999);
  CHECK(lowered.error().used == 6000);
  CHECK(lowered.error().asked == 0);
  CHECK(lowered.error().fix == "lower the guarantees below acme first, or guarantee at least 6 GPUs");
  CHECK_FALSE(lab.limit(kPlatform, {.gpu_milli = at_most(7999)}));
}

TEST_CASE("quota: what was guaranteed of a model or a SKU below cannot be taken away above") {
  Lab lab;
  const QuotaShare two{.guaranteed = 2000, .limit = {}};
  CHECK(lab.run(SetSku{{"small", 250, 20'000'000'000}}, lab.root));
  CHECK(lab.limit(lab.acme, {.devices = {{"H100", two}}, .skus = {{"small", two}}}));
  CHECK(lab.limit(lab.unit, {.devices = {{"H100", two}}, .skus = {{"small", two}}}));
  CHECK(lab.limit(lab.acme, {.skus = {{"small", two}}}).error().rule == "devices.H100.guaranteed");
  CHECK(lab.limit(lab.acme, {.devices = {{"H100", two}}}).error().rule == "skus.small.guaranteed");
  CHECK(lab.limit(lab.unit, {}));
  CHECK(lab.limit(lab.acme, {}));
}

TEST_CASE("quota: nobody sets the limits that bind him") {
  Lab lab;
  const PartyId boss = lab.user(lab.acme, "boss", {Role::kTenantAdmin});
  const auto own = lab.run(SetQuota{.party = lab.acme, .quota = {.gpu_milli = at_most(1 << 20)}}, boss);
  REQUIRE_FALSE(own);
  CHECK(own.error().reason == Reason::kForbidden);
  CHECK(lab.run(SetQuota{.party = lab.unit, .quota = {.gpu_milli = at_most(1)}}, boss));
}

// The oracle adds up the journal, job by job and level by level; it never reads the usage that apply() keeps.
TEST_CASE("admission: whatever is asked, no limit of any level is passed, and replay gives the same state") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Lab lab;
    const PartyId bob = lab.user(lab.acme, "bob");
    const std::map<PartyId, std::int64_t> limits{
        {lab.ana, 3000}, {lab.unit, 4000}, {lab.acme, 6000}, {kPlatform, 6500}};
    for (const auto& [party, milli] : limits) REQUIRE(lab.limit(party, {.gpu_milli = at_most(milli)}));
    std::map<JobId, JobSubmitted> live;
    for (int step = 0; step < 200; ++step) {
      const PartyId who = random.below(2) == 0 ? lab.ana : bob;
      if (random.below(3) == 0 && !live.empty()) {
        auto victim = live.begin();
        std::advance(victim, static_cast<long>(random.below(live.size())));
        REQUIRE(lab.run(StopJob{victim->first}, lab.root));
        live.erase(victim);
      } else {
        Ask ask = gpus(1 + static_cast<std::uint32_t>(random.below(3)),
                       1 + static_cast<std::uint32_t>(random.below(1000)));
        const auto decision = lab.run(SubmitJob{.ask = ask}, who);
        if (decision) {
          const auto& event = std::get<JobSubmitted>(decision->front());
          live.emplace(event.id, event);
        }
      }
      std::map<PartyId, std::int64_t> held;
      for (const auto& [id, job] : live) {
        for (PartyId at = job.owner; at != PartyId{}; at = lab.state.party(at)->parent) {
          held[at] += static_cast<std::int64_t>(job.ask.instances) * job.ask.milli_each;
        }
      }
      for (const auto& [party, milli] : limits) CHECK(held[party] <= milli);
    }
  }
}

}  // namespace
}  // namespace tranche::engine
