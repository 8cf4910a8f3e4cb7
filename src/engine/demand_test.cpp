// SPDX-License-Identifier: Apache-2.0
#include "engine/demand.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Four devices; every day from ten to eleven the desk wants all of them.
struct Desk : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  Instant midnight = std::chrono::ceil<std::chrono::days>(clock);

  explicit Desk(std::uint32_t prepare_percent) {
    node("a", 4);
    wire::Settings settings = state.settings;
    settings.prepare_percent = prepare_percent;
    REQUIRE(run(ChangeSettings{settings}, root).has_value());
    clock = midnight + 10h;
    std::vector<JobId> jobs;
    for (int i = 0; i < 4; ++i) jobs.push_back(submit(ana, whole(75)));
    schedule();
    clock = midnight + 11h;
    for (const JobId id : jobs) {
      const LeaseId lease = state.jobs.at(id).leases.front();
      REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
      REQUIRE(scrub(lease).has_value());
    }
  }

  static Ask whole(std::uint8_t priority, Duration time = {}) {
    Ask ask = gpus(1);
    ask.isolation = Isolation::kDedicated;
    ask.priority = priority;
    ask.time = time;
    return ask;
  }
  bool starts(const Ask& ask) {
    const JobId id = submit(ana, ask);
    schedule();
    return state.jobs.at(id).state == JobState::kStarting;
  }
};

TEST_CASE(
    "demand: what was asked for at an hour is expected at that hour of the next days, after a restart too") {
  Desk desk(0);
  const Instant tomorrow = desk.midnight + 24h;
  const auto check = [&](const State& state) {
    CHECK(state.index.demand->expected_above(50, tomorrow + 10h) == 4000);
    CHECK(state.index.demand->expected_above(75, tomorrow + 10h) == 0);
    CHECK(state.index.demand->expected_above(50, tomorrow + 12h) == 0);
    CHECK(state.index.demand->usual_run({75, desk.acme, wire::WorkloadKind::kRender}) == Duration{});
    CHECK(state.index.demand->usual_run({75, desk.acme, Desk::whole(75).kind}) == 1h);
  };
  check(desk.state);
  const auto again = decode_state(encode_state(desk.state));
  REQUIRE(again);
  check(*again);
}

TEST_CASE("demand: work that waited counts from when it was asked for") {
  Desk desk(0);
  desk.clock = desk.midnight + 24h;
  for (int i = 0; i < 4; ++i) REQUIRE(desk.starts(Desk::whole(50)));
  const JobId late = desk.submit(desk.ana, Desk::whole(90));
  desk.clock += 5h;
  for (const LeaseId id : {LeaseId{5}, LeaseId{6}, LeaseId{7}, LeaseId{8}}) {
    REQUIRE(desk.report(id, LeaseState::kEnded, EndReason::kExited).has_value());
    REQUIRE(desk.scrub(id).has_value());
  }
  desk.schedule();
  desk.clock += 1h;
  REQUIRE(desk.report(desk.state.jobs.at(late).leases.front(), LeaseState::kEnded, EndReason::kExited)
              .has_value());
  CHECK(desk.state.index.demand->expected_above(75, desk.midnight + 48h) == 1000);
  CHECK(desk.state.index.demand->expected_above(75, desk.midnight + 48h + 5h) == 0);
}

TEST_CASE("demand: room is kept from long work that goes after it, and from nobody else") {
  Desk desk(100);
  desk.clock = desk.midnight + 24h + 9h + 30min;
  const JobId waits = desk.submit(desk.ana, Desk::whole(25, 2h));
  desk.schedule();
  REQUIRE(desk.state.jobs.at(waits).state == JobState::kPending);
  const wire::Why why = explain(desk.state, {desk.ana}, desk.state.jobs.at(waits));
  CHECK(why.reason == wire::WaitReason::kPriority);
  CHECK(why.message.find("tranche forecast demand") != std::string::npos);
  CHECK(desk.starts(Desk::whole(25, 20min)));  // Gone by then.
  CHECK(desk.starts(Desk::whole(75, 2h)));     // It is the demand.
  Ask stoppable = Desk::whole(25, 2h);
  stoppable.preemptible = true;
  CHECK(desk.starts(stoppable));
  // Until the hour has passed; the pass is due by itself.
  CHECK_FALSE(schedule_due(desk.state, desk.midnight + 24h + 9h + 59min));
  CHECK(schedule_due(desk.state, desk.midnight + 24h + 10h));
  desk.clock = desk.midnight + 24h + 11h;
  desk.schedule();
  CHECK(desk.state.jobs.at(waits).state == JobState::kStarting);
}

TEST_CASE("demand: nothing is held back while more waits than could be made up for in a day") {
  Desk desk(100);
  desk.clock = desk.midnight + 24h + 9h + 30min;
  const JobId first = desk.submit(desk.ana, Desk::whole(25, 2h));
  desk.schedule();
  REQUIRE(desk.state.jobs.at(first).state == JobState::kPending);
  // Four devices for a day, less what is expected, are not 96 device-hours; half of that is the bound.
  for (int i = 0; i < 24; ++i) desk.submit(desk.ana, Desk::whole(25, 2h));
  desk.schedule();
  CHECK(desk.state.jobs.at(first).state == JobState::kStarting);
}

TEST_CASE("demand: nothing is kept unless the operator says so, nor from a guarantee") {
  Desk off(0);
  off.clock = off.midnight + 24h + 9h + 30min;
  CHECK(off.starts(Desk::whole(25, 2h)));
  Desk on(100);
  on.clock = on.midnight + 24h + 9h + 30min;
  Quota quota;
  quota.gpu_milli.guaranteed = 1000;
  REQUIRE(on.limit(on.acme, quota).has_value());
  CHECK(on.starts(Desk::whole(25, 2h)));
  CHECK_FALSE(on.starts(Desk::whole(25, 2h)));
}

}  // namespace
}  // namespace tranche::engine
