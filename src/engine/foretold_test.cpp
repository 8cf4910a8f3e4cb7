// SPDX-License-Identifier: Apache-2.0
#include "engine/foretold.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// One device, one job that has it, and one that waits for it.
struct Waiting : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("a", 1);
  JobId first = submit(ana, gpus(1));
  JobId second{};

  Waiting() {
    schedule();
    second = submit(ana, gpus(1));
    schedule();
  }
  Decision tell(JobId id, Duration p50, Duration p90) { return run(NoteForecast{id, p50, p90}); }
  void end(JobId id) {
    const LeaseId lease = state.jobs.at(id).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
    REQUIRE(scrub(lease));
    schedule();
  }
  void restart() {
    const std::string bytes = encode_state(state);
    auto again = decode_state(bytes);
    REQUIRE(again);
    CHECK(encode_state(*again) == bytes);
    state = std::move(*again);
  }
};

TEST_CASE("foretold: the first answer is remembered, and how long it really took, across restarts") {
  Waiting world;
  REQUIRE(world.tell(world.second, 30min, 60min));
  world.clock += 10min;
  const auto later = world.tell(world.second, 20min, 50min);  // Knows more: the first one counts.
  REQUIRE(later);
  CHECK(later->empty());
  world.restart();
  REQUIRE(world.state.foretold.open.contains(world.second));
  CHECK(world.state.foretold.open.at(world.second).p50 == 30min);
  CHECK(world.state.foretold.outcomes.empty());
  world.clock += 30min;
  world.end(world.first);
  world.restart();
  CHECK(world.state.foretold.open.empty());
  REQUIRE(world.state.foretold.outcomes.size() == 1);
  const ToldOutcome& outcome = world.state.foretold.outcomes.front();
  CHECK(outcome.job == world.second);
  CHECK(outcome.tenant == world.acme);
  CHECK(outcome.at == world.clock);
  CHECK(outcome.p50 == 30min);
  CHECK(outcome.p90 == 60min);
  CHECK(outcome.really == 40min);
}

TEST_CASE("foretold: only jobs that wait are told, and those that never start are forgotten") {
  Waiting world;
  CHECK(world.tell(world.first, 1min, 2min)->empty());
  CHECK(world.tell(JobId{99}, 1min, 2min)->empty());
  CHECK(world.state.foretold.open.empty());
  REQUIRE(world.tell(world.second, 1min, 2min));
  REQUIRE(world.run(StopJob{world.second}, world.ana));
  CHECK(world.state.foretold.open.empty());
  CHECK(world.state.foretold.outcomes.empty());
}

TEST_CASE("foretold: a start that comes again after a fault is not counted twice") {
  Waiting world;
  REQUIRE(world.tell(world.second, 1min, 2min));
  world.end(world.first);
  REQUIRE(world.state.foretold.outcomes.size() == 1);
  REQUIRE(world.run(LoseNode{world.machine, "silent"}));
  world.clock += 1h;
  REQUIRE(world.run(ReportNode{world.machine, World::hello("a", 1, "H100-SXM5-80GB")}));
  REQUIRE(world.accept(world.machine));
  world.schedule();
  CHECK(world.state.foretold.outcomes.size() == 1);
}

TEST_CASE("foretold: a gang starts once, whatever its members") {
  Waiting world;
  world.node("b", 1);
  Ask gang = gpus(2);
  gang.nodes = 2;
  const JobId both = world.submit(world.ana, gang);
  world.schedule();
  REQUIRE(world.tell(both, 5min, 9min));
  world.clock += 7min;
  world.end(world.first);
  world.end(world.second);
  REQUIRE(world.state.jobs.at(both).leases.size() == 2);
  REQUIRE(world.state.foretold.outcomes.size() == 1);
  CHECK(world.state.foretold.outcomes.front().really == 7min);
}

TEST_CASE("foretold: the last four hundred are kept") {
  Waiting world;
  for (std::uint64_t i = 1; i <= 401; ++i) {
    world.state.foretold.open[{1000 + i}] = Told{{1000 + i}, world.clock, 1min, 2min};
    note_foretold_start(world.state, {1000 + i}, world.clock + 3min);
  }
  REQUIRE(world.state.foretold.outcomes.size() == 400);
  CHECK(world.state.foretold.outcomes.front().job == JobId{1002});
  CHECK(world.state.foretold.outcomes.back().really == 3min);
}

}  // namespace
}  // namespace tranche::engine
