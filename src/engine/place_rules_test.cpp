// SPDX-License-Identifier: Apache-2.0
#include "engine/place_rules.hpp"

#include <doctest/doctest.h>

#include "engine/booking.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using wire::Place;

// Two nodes of two devices in each of two places.
struct Places : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  std::vector<NodeId> nodes{};

  Places() {
    for (const char* name : {"us-1", "us-2", "eu-1", "eu-2"}) {
      nodes.push_back(node(name, 2));
      state.nodes.at(nodes.back()).site = std::string(name).substr(0, 2) == "us" ? "us-east" : "eu-west";
      state.nodes.at(nodes.back()).labels.set("rack", std::string(name).substr(3));
    }
  }
  Decision rule(Rule rule, PartyId where = {}) {
    return run(SetRules{where == PartyId{} ? acme : where, {.rules = {std::move(rule)}}}, root);
  }
  JobId job(WorkloadKind kind, Ask ask = gpus(1)) {
    ask.kind = kind;
    ask.isolation = Isolation::kDedicated;
    ask.milli_each = 1000;
    ask.time = 1h;
    return submit(ana, ask);
  }
  std::string site_of(JobId id) const {
    const auto& leases = state.jobs.at(id).leases;
    return leases.empty() ? "" : state.nodes.at(state.leases.at(leases.front()).node).site;
  }
};

Rule training_in_eu() {
  return {.name = "training stays in the EU",
          .when = {.kinds = {WorkloadKind::kTraining}},
          .then = {.only_at = Place{.sites = {"eu-west"}}}};
}

TEST_CASE("place rules: such a job runs only where the rule allows, others run anywhere") {
  Places world;
  REQUIRE(world.rule(training_in_eu()));
  std::vector<JobId> training;
  for (int i = 0; i < 6; ++i) training.push_back(world.job(WorkloadKind::kTraining));
  world.schedule();
  int running = 0;
  for (const JobId id : training) {
    if (world.site_of(id).empty()) continue;
    CHECK(world.site_of(id) == "eu-west");
    ++running;
  }
  CHECK(running == 4);  // All that is there; what is idle elsewhere is not for them.
  const JobId other = world.job(WorkloadKind::kInference);
  world.schedule();
  CHECK(world.site_of(other) == "us-east");  // Not held up behind those that wait.

  const Actor actor = *actor_of(world.state, world.envelope(world.ana));
  const wire::Why why = explain(world.state, actor, world.state.jobs.at(training.back()));
  CHECK(why.reason == wire::WaitReason::kPolicy);
  CHECK(why.message ==
        "rule 'training stays in the EU' of acme lets such a job run only at site eu-west; that leaves out 2 "
        "nodes");
  CHECK(std::count(why.not_the_cause.begin(), why.not_the_cause.end(), wire::WaitReason::kPolicy) == 0);

  // Where one ends, the next starts.
  const LeaseId first = world.state.jobs.at(training[0]).leases.front();
  REQUIRE(world.report(first, LeaseState::kRunning));
  REQUIRE(world.report(first, LeaseState::kEnded, EndReason::kExited));
  static_cast<void>(world.scrub(first));
  world.accept(world.state.leases.at(first).node);
  world.schedule();
  CHECK(world.site_of(training[4]) == "eu-west");
}

TEST_CASE("place rules: a job that no place is left to is refused, and told which rule and what there is") {
  Places world;
  REQUIRE(world.rule({.name = "on the moon", .when = {}, .then = {.only_at = Place{.sites = {"moon"}}}}));
  const auto refused = world.run(SubmitJob{.ask = gpus(1), .spec = "{}"}, world.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kPolicy);
  CHECK(refused.error().rule == "rule 'on the moon'");
  CHECK(refused.error().where == "acme");
  CHECK(refused.error().message.find("only at site moon") != std::string::npos);
  CHECK(refused.error().message.find("eu-west, us-east") != std::string::npos);
  CHECK(refused.error().fix.find("tranche node add") != std::string::npos);
  World nothing;  // No node at all: it waits for capacity, like any other.
  const PartyId tenant = nothing.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId user = nothing.user(tenant, "bo");
  REQUIRE(nothing.run(SetRules{tenant, {.rules = {training_in_eu()}}}, nothing.root));
  CHECK(nothing.run(
      SubmitJob{.ask = {.kind = WorkloadKind::kTraining, .instances = 1, .milli_each = 1000}, .spec = "{}"},
      user));
}

TEST_CASE("place rules: a rule of a place binds there, by label and by hour") {
  Places world;
  Rule rule{.name = "no renders on rack 1 by day",
            .when = {.kinds = {WorkloadKind::kRender},
                     .during = Hours{"08:00", "20:00", "UTC", {}},
                     .at = Place{.labels = {{"rack", "1"}}}},
            .then = {.deny = true}};
  REQUIRE(
      world.run(SetRules{world.acme, {.rules = {rule}, .zones = {{"UTC", {{Instant{}, 0}}}}}}, world.root));
  world.clock = Instant(std::chrono::floor<std::chrono::days>(world.clock)) + 36h;  // Noon.
  std::vector<JobId> jobs;
  for (int i = 0; i < 8; ++i) jobs.push_back(world.job(WorkloadKind::kRender));
  world.schedule();
  int running = 0;
  for (const JobId id : jobs) {
    if (world.state.jobs.at(id).leases.empty()) continue;
    ++running;
    CHECK(*world.state.nodes.at(world.state.leases.at(world.state.jobs.at(id).leases.front()).node)
               .labels.find("rack") == "2");
  }
  CHECK(running == 4);
  world.clock += 9h;  // Night: the rest of the nodes is theirs.
  REQUIRE(world.run(Tick{}));
  world.schedule();
  running = 0;
  for (const JobId id : jobs) running += !world.state.jobs.at(id).leases.empty();
  CHECK(running == 8);
}

TEST_CASE("place rules: a limit of a place keeps off who is above it, and isolation likewise") {
  Places world;
  REQUIRE(world.rule({.name = "one device in the US",
                      .when = {.at = Place{.sites = {"us-east"}}},
                      .then = {.gpu_milli_max = 1000}}));
  const JobId large = world.job(WorkloadKind::kBatch, gpus(2));
  world.schedule();
  CHECK(world.site_of(large) == "eu-west");
  REQUIRE(world.rule({.name = "shared only in the US",
                      .when = {.at = Place{.sites = {"us-east"}}},
                      .then = {.isolation = std::vector{Isolation::kSoft}}}));
  const JobId whole = world.job(WorkloadKind::kBatch);
  world.schedule();
  CHECK(world.site_of(whole) == "eu-west");
}

TEST_CASE("place rules: they hold inside booked windows, too") {
  Places world;
  BookWindows book{
      .owner = world.acme,
      .ask = {.isolation = Isolation::kDedicated, .instances = 8, .milli_each = 1000, .nodes = 4},
      .windows = {{world.clock + 1h, world.clock + 3h}},
      .zone = "UTC"};
  REQUIRE(world.run(book, world.root));
  REQUIRE(world.rule(training_in_eu()));
  world.clock += 1h;
  std::vector<JobId> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(world.job(WorkloadKind::kTraining));
  world.schedule();
  for (const JobId id : jobs)
    if (!world.site_of(id).empty()) CHECK(world.site_of(id) == "eu-west");
  const auto running =
      std::count_if(jobs.begin(), jobs.end(), [&](JobId id) { return !world.site_of(id).empty(); });
  CHECK(running == 4);
}

TEST_CASE("place rules: an owner within its guarantee takes back what was lent, where it may run") {
  Places world;
  const PartyId other = world.create(PartyKind::kTenant, kPlatform, "borrower");
  const PartyId bo = world.user(other, "bo");
  Quota quota;
  quota.gpu_milli = {.guaranteed = 4000, .limit = 8000};
  REQUIRE(world.limit(world.acme, quota));
  REQUIRE(world.rule(training_in_eu()));
  Ask lent = gpus(1);
  lent.isolation = Isolation::kDedicated;
  lent.preemptible = true;
  for (int i = 0; i < 8; ++i) {
    const JobId id = world.submit(bo, lent);
    world.schedule();
    REQUIRE(world.report(world.state.jobs.at(id).leases.front(), LeaseState::kRunning));
  }
  world.clock += 1h;
  world.job(WorkloadKind::kTraining);
  world.schedule();
  int revoked = 0;
  for (const auto& [id, lease] : world.state.leases) {
    if (!lease.revoked) continue;
    ++revoked;
    CHECK(world.state.nodes.at(lease.node).site == "eu-west");
  }
  CHECK(revoked == 1);
}

TEST_CASE(
    "place rules: what names no place, or says of a place what holds everywhere, is refused when written") {
  Places world;
  const auto problem = [&](Rule rule) { return world.rule(std::move(rule)).error().message; };
  CHECK(problem({.name = "x", .then = {.only_at = Place{}}}).find("names no place") != std::string::npos);
  CHECK(problem({.name = "x", .when = {.at = Place{}}, .then = {.deny = true}}).find("at names no place") !=
        std::string::npos);
  CHECK(problem({.name = "x", .then = {.only_at = Place{.sites = {""}}}}).find("without a name") !=
        std::string::npos);
  CHECK(problem({.name = "x", .when = {.at = Place{.sites = {"eu"}}}, .then = {.share_percent_max = 40}})
            .find("hold everywhere") != std::string::npos);
}

TEST_CASE("node labels: what no rule could name is refused, with the name and what would do") {
  Places world;
  const NodeId node = world.nodes.front();
  const auto label = [&](const std::string& name, const std::string& value) {
    return world.run(ChangeNode{.id = node, .labels = {{"rack", "1"}, {name, value}}}, world.root);
  };
  for (const char* name : {"my rack",
                           " rack",
                           "",
                           "-rack",
                           "rack=1",
                           "rack,row",
                           "r\xc3\xa4"
                           "ck",
                           "a\nb"}) {
    CAPTURE(name);
    const auto refused = label(name, "r7");
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().rule == "label");
    CHECK(refused.error().message.find("'" + std::string(name) + "'") != std::string::npos);
  }
  CHECK_FALSE(label(std::string(64, 'a'), "x").has_value());
  for (const std::string& value :
       {std::string("a\nb"), std::string(" r7"), std::string("r7 "), std::string(256, 'v')})
    CHECK(label("row", value).error().rule == "label");
  CHECK(world.state.nodes.at(node).labels == wire::TextMap{{"rack", "1"}});
  REQUIRE(label("topology.example.com/zone_B-2", "hall 7, left").has_value());
  CHECK(*world.state.nodes.at(node).labels.find("topology.example.com/zone_B-2") == "hall 7, left");
  CHECK(world.run(AddNode{.name = "us-3", .labels = {{"my rack", "1"}}, .expires_in = 1h}, world.root)
            .error()
            .rule == "label");
  // One that an older version took does not stand in the way of anything else.
  world.state.nodes.at(node).labels = {{"my rack", "1"}};
  CHECK(world.run(ChangeNode{.id = node, .cordoned = true, .labels = {{"my rack", "1"}}}, world.root)
            .has_value());
}

}  // namespace
}  // namespace tranche::engine
