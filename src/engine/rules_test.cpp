// SPDX-License-Identifier: Apache-2.0
#include "engine/rules.hpp"

#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono;

// Madrid: UTC+1, from 2026-03-29 01:00Z UTC+2, from 2026-10-25 01:00Z UTC+1.
std::vector<ZoneOffset> madrid() {
  return {{Instant{}, 3600},
          {Instant{sys_days{2026y / March / 29} + 1h}, 7200},
          {Instant{sys_days{2026y / October / 25} + 1h}, 3600}};
}

Rules night_only() {
  return {.rules = {{.name = "training at night",
                     .when = {.kinds = {WorkloadKind::kTraining},
                              .outside = Hours{"22:00", "06:00", "Europe/Madrid", {}}},
                     .then = {.deny = true}}},
          .zones = {{"Europe/Madrid", madrid()}}};
}

TEST_CASE("rules: hours are local, over midnight and over the change of the clock") {
  const Rules rules = night_only();
  const Hours night{"22:00", "06:00", "Europe/Madrid", {}};
  const auto at = [&](sys_days day, minutes time) { return within(night, rules.zones, Instant{day + time}); };
  CHECK_FALSE(at(2026y / January / 10, 20h + 59min));
  CHECK(at(2026y / January / 10, 21h));
  CHECK(at(2026y / January / 11, 4h + 59min));
  CHECK_FALSE(at(2026y / January / 11, 5h));
  CHECK(at(2026y / July / 10, 20h));
  CHECK_FALSE(at(2026y / July / 11, 4h));
}

TEST_CASE("rules: days are those on which the span begins") {
  const Rules rules = night_only();
  const Hours friday_night{"22:00", "06:00", "Europe/Madrid", {Weekday::kFri}};
  CHECK(within(friday_night, rules.zones, Instant{sys_days{2026y / January / 9} + 22h}));  // Friday 23:00
  CHECK(within(friday_night, rules.zones, Instant{sys_days{2026y / January / 10} + 3h}));  // Saturday 04:00
  CHECK_FALSE(within(friday_night, rules.zones, Instant{sys_days{2026y / January / 10} + 22h}));
}

TEST_CASE("rules: training waits for the night, others do not") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  REQUIRE(world.run(SetRules{.party = acme, .rules = night_only()}, world.root));
  world.clock = Instant{sys_days{2026y / July / 10} + 12h};
  Ask training = gpus(1);
  training.kind = WorkloadKind::kTraining;
  const auto refused = world.run(SubmitJob{.ask = training}, ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kPolicy);
  CHECK(refused.error().rule == "rule 'training at night'");
  CHECK(refused.error().fix == "submit it at another hour");
  CHECK(world.run(SubmitJob{.ask = gpus(1)}, ana));
  world.clock = Instant{sys_days{2026y / July / 10} + 23h};
  CHECK(world.run(SubmitJob{.ask = training}, ana));
}

TEST_CASE("rules: only small models may share, and renders take at most 40 percent") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  REQUIRE(world.limit(acme, {.gpu_milli = at_most(10'000)}));
  const Rules rules{.rules = {{.name = "large models alone",
                               .when = {.kinds = {WorkloadKind::kInference}, .model_over = "13b"},
                               .then = {.isolation = std::vector{Isolation::kDedicated}}},
                              {.name = "renders",
                               .when = {.kinds = {WorkloadKind::kRender}},
                               .then = {.share_percent_max = 40}}}};
  REQUIRE(world.run(SetRules{.party = acme, .rules = rules}, world.root));
  Ask ask = gpus(1);
  ask.kind = WorkloadKind::kInference;
  ask.model_millions = 13'000;
  CHECK(world.run(SubmitJob{.ask = ask}, ana));
  ask.model_millions = 70'000;
  CHECK(world.run(SubmitJob{.ask = ask}, ana).error().rule == "rule 'large models alone'");
  ask = gpus(4);
  ask.kind = WorkloadKind::kRender;
  CHECK(world.run(SubmitJob{.ask = ask}, ana));
  ask = gpus(1, 1);
  ask.kind = WorkloadKind::kRender;
  const auto refused = world.run(SubmitJob{.ask = ask}, ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().limit == 4000);
  CHECK(refused.error().used == 4000);
}

TEST_CASE("rules: what makes no sense is refused when it is written, in words") {
  const auto problem = [](Rule rule) { return rules_problem({.rules = {std::move(rule)}}); };
  CHECK(problem({.name = "a", .then = {}}) ==
        "rule 'a': its `then` says nothing; write deny: true or a limit");
  CHECK(problem({.name = "", .then = {.deny = true}}) == "rule '': it needs a name");
  CHECK(problem({.name = "a", .when = {.model_over = "big"}, .then = {.deny = true}}) ==
        "rule 'a': 'big' is no model size; write 7b, 13b, 350m");
  CHECK(problem({.name = "a", .when = {.during = Hours{"9", "10:00", "UTC", {}}}, .then = {.deny = true}}) ==
        "rule 'a': hours are written like from: \"22:00\", to: \"06:00\"");
  CHECK(problem(
            {.name = "a", .when = {.during = Hours{"09:00", "10:00", "Mars", {}}}, .then = {.deny = true}}) ==
        "rule 'a': there is no time zone 'Mars'");
}

TEST_CASE("rules: model sizes are read as people write them") {
  CHECK(parse_model_size("7b") == 7000);
  CHECK(parse_model_size("0.5B") == 500);
  CHECK(parse_model_size("350m") == 350);
  CHECK(parse_model_size("1.25b") == 1250);
  CHECK_FALSE(parse_model_size("b"));
  CHECK_FALSE(parse_model_size("7"));
  CHECK_FALSE(parse_model_size("-7b"));
  CHECK_FALSE(parse_model_size("7.b"));
}

}  // namespace
}  // namespace tranche::engine
