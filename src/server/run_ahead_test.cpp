// SPDX-License-Identifier: Apache-2.0
#include "server/run_ahead.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"
#include "server/sooner.hpp"

namespace tranche::server {
namespace {

using namespace std::chrono_literals;
using engine::gpus;

wire::Ask timed(wire::Ask ask, Duration time) {
  ask.time = time;
  return ask;
}

struct Queue : engine::World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");

  JobId running(wire::Ask ask) {
    const JobId id = submit(ana, std::move(ask));
    schedule();
    for (const LeaseId lease : state.jobs.at(id).leases)
      TRANCHE_CHECK(report(lease, wire::LeaseState::kRunning).has_value());
    return id;
  }
  // A job that ran for so long, and is over.
  void history(wire::Ask ask, Duration length, int times) {
    for (int i = 0; i < times; ++i) {
      const JobId id = running(ask);
      clock += length;
      for (const LeaseId lease : std::vector(state.jobs.at(id).leases)) {
        TRANCHE_CHECK(report(lease, wire::LeaseState::kEnded, wire::EndReason::kExited).has_value());
        TRANCHE_CHECK(scrub(lease).has_value());
      }
      schedule();
    }
  }
  // On a copy: a run uses the state up.
  std::optional<Duration> wait_of(JobId job, const wire::Ask* other = nullptr) {
    auto copy = engine::decode_state(engine::encode_state(state));
    TRANCHE_CHECK(copy.has_value());
    if (other != nullptr && !change_ask(*copy, job, *other)) return std::nullopt;
    return run_ahead(*copy, clock, job, {});
  }
};

bool is_about(std::optional<Duration> wait, Duration wanted) {
  return wait && *wait >= wanted - 2s && *wait <= wanted + 1min;
}

TEST_CASE("run ahead: a job starts when the one before it is over, by how long its like have run") {
  Queue world;
  world.node("a", 1);
  world.history(gpus(1), 30min, 12);
  world.running(gpus(1));
  world.clock += 10min;
  const JobId next = world.submit(world.ana, gpus(1));
  const JobId after = world.submit(world.ana, gpus(1));
  world.schedule();
  CHECK(is_about(world.wait_of(next), 20min));
  CHECK(is_about(world.wait_of(after), 50min));
}

TEST_CASE("run ahead: time limits bound what history says, and windows that open are waited for") {
  Queue world;
  world.node("a", 1);
  world.running(timed(gpus(1), 15min));
  const JobId next = world.submit(world.ana, gpus(1));
  world.schedule();
  CHECK(is_about(world.wait_of(next), 15min));

  Queue booked;
  booked.node("a", 1);
  engine::BookWindows window{.ask = gpus(1), .windows = {{booked.clock + 2h, booked.clock + 3h}}};
  REQUIRE(booked.run(window, booked.ana).has_value());
  wire::Ask inside = gpus(1);
  inside.labels["booking"] = "clm_000001";
  const JobId waits = booked.submit(booked.ana, inside);
  booked.schedule();
  CHECK(is_about(booked.wait_of(waits), 2h));
}

TEST_CASE("run ahead: a declared time is believed before a few short jobs that were something else") {
  Queue world;
  world.node("a", 1);
  world.history(gpus(1), 20s, 1);
  world.running(timed(gpus(1), 10min));
  const JobId next = world.submit(world.ana, gpus(1));
  world.schedule();
  CHECK(is_about(world.wait_of(next), 10min));
  world.clock += 30s;  // Longer than anything that has run here.
  CHECK(is_about(world.wait_of(next), 9min + 30s));
}

TEST_CASE("run ahead: what never fits never starts") {
  Queue world;
  const JobId never = world.submit(world.ana, gpus(2));  // Nobody knows yet what there will be.
  world.node("a", 1);
  world.schedule();
  CHECK_FALSE(world.wait_of(never).has_value());
}

TEST_CASE("sooner: a smaller share starts beside what runs") {
  Queue world;
  world.node("a", 1);
  world.running(timed(gpus(1, 500), 5h));
  const JobId whole = world.submit(world.ana, gpus(1, 800));
  world.schedule();
  CHECK(is_about(world.wait_of(whole), 5h));  // Nobody like it has run: it takes what it declared.
  const auto changes = changes_for(world.state.jobs.at(whole));
  REQUIRE_FALSE(changes.empty());
  CHECK(changes[0].how == "--gpus 0.4 instead of 0.8");
  CHECK(is_about(world.wait_of(whole, &changes[0].ask), 0s));
}

TEST_CASE("sooner: only what admission would let through, which does not count the job twice") {
  Queue world;
  world.node("a", 1);
  world.running(timed(gpus(1), 5h));
  const JobId job = world.submit(world.ana, gpus(1));
  engine::Quota quota;
  quota.gpu_milli = engine::at_most(2000);
  quota.priority_max = 60;
  REQUIRE(world.limit(world.acme, quota).has_value());
  wire::Ask preemptible = world.state.jobs.at(job).ask;
  preemptible.preemptible = true;
  CHECK(is_about(world.wait_of(job, &preemptible), 5h));
  wire::Ask first = world.state.jobs.at(job).ask;
  first.priority = 75;
  CHECK_FALSE(world.wait_of(job, &first).has_value());
}

}  // namespace
}  // namespace tranche::server
