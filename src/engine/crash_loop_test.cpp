// SPDX-License-Identifier: Apache-2.0
// A job that ends badly every time (row F20 of the fault table): it comes to an end, with growing pauses, and
// whoever shares the machine with it is disturbed once an attempt at most.
#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

struct Loop : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");
  int attempts = 0;
  int disturbed = 0;  // Leases of others that were taken back.
  std::vector<Duration> pauses{};

  void end(LeaseId lease, EndReason reason, std::int32_t code) {
    REQUIRE(report(lease, LeaseState::kEnded, reason, code).has_value());
    REQUIRE(scrub(lease).has_value());
  }
  bool goes_on(JobId id) const {
    const JobState now = state.jobs.at(id).state;
    return !is_over(now) && now != JobState::kHeld;
  }
  // Ends every attempt of the job in this way, for a day, and lets everybody else do as asked.
  void run_for_a_day(JobId id, EndReason reason, std::int32_t code) {
    Instant ended{};
    for (const Instant last = clock + 24h; clock < last && goes_on(id); clock += 1s) {
      schedule();
      for (const auto& [lease, facts] : std::map(state.leases.begin(), state.leases.end())) {
        if (!facts.live() || facts.job == id) continue;
        if (!facts.revoked) {
          if (facts.state != LeaseState::kRunning) REQUIRE(report(lease, LeaseState::kRunning).has_value());
          continue;
        }
        ++disturbed;
        end(lease, EndReason::kExited, 143);
      }
      const Job& job = state.jobs.at(id);
      if (job.leases.empty() || !state.leases.at(job.leases.front()).live()) continue;
      if (attempts++ > 0) pauses.push_back(clock - ended);
      ended = clock;
      end(job.leases.front(), reason, code);
    }
  }
};

TEST_CASE(
    "crash loop: faults of the platform bring a job back three times, later each time; then it is held") {
  Loop world;
  world.node("a", 1);
  const JobId id = world.submit(world.ana, gpus(1));
  world.run_for_a_day(id, EndReason::kNodeFault, 137);
  CHECK(world.state.jobs.at(id).state == JobState::kHeld);
  CHECK(world.state.jobs.at(id).reason == EndReason::kNodeFault);
  CHECK(world.attempts == 4);
  REQUIRE(world.pauses.size() == 3);
  CHECK(world.pauses[0] < world.pauses[1]);
  CHECK(world.pauses[1] < world.pauses[2]);
}

// Runs the job once for so long, lets it save something so long after its start, and takes its node's side of
// it away.
struct LongJob : Loop {
  NodeId machine = node("a", 1);
  JobId id = submit(ana, gpus(1));
  std::optional<Instant> newest{};  // In its folder: the node names it again with every end.

  void fail_after(Duration ran, Duration saved = Duration::max()) {
    clock += 1h;  // Past every pause.
    REQUIRE(schedule() == 1);
    const Lease lease = state.leases.at(state.jobs.at(id).leases.front());
    REQUIRE(report(lease.id, LeaseState::kRunning).has_value());
    const Instant began = clock;
    if (saved <= ran) {
      clock = began + saved;
      newest = clock;
      REQUIRE(run(NoteProgress{.node = machine,
                               .report = {.lease = lease.id,
                                          .epoch = lease.epoch,
                                          .at = clock,
                                          .checkpoints = {{.name = "step", .at = clock}}}}));
    }
    clock = began + ran;
    REQUIRE(run(ReportLease{.node = machine,
                            .report = {.lease = lease.id,
                                       .epoch = lease.epoch,
                                       .state = LeaseState::kEnded,
                                       .at = clock,
                                       .reason = EndReason::kNodeFault,
                                       .exit_code = 137,
                                       .checkpoint = newest}}));
    REQUIRE(scrub(lease.id).has_value());
  }
  JobState now() { return state.jobs.at(id).state; }
};

TEST_CASE("crash loop: faults count from the last checkpoint, so a long job outlives many") {
  LongJob world;
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    world.fail_after(3h, 2h);
    REQUIRE(world.now() == JobState::kPending);
    CHECK(world.state.jobs.at(world.id).faults == 1);
  }
  const auto again = decode_state(encode_state(world.state));
  REQUIRE(again);
  CHECK(again->jobs.at(world.id).faults == 1);
  // It stands still from now on: the fault that came after its last progress was the first of four.
  for (int i = 0; i < 2; ++i) world.fail_after(3h);
  CHECK(world.now() == JobState::kPending);
  world.fail_after(3h);
  CHECK(world.now() == JobState::kHeld);
}

TEST_CASE("crash loop: what is saved at once, or was saved before, is no progress") {
  for (const Duration saved : {Duration(1s), Duration(9min)}) {
    CAPTURE(saved.count());
    LongJob world;
    for (int i = 0; i < 4; ++i) world.fail_after(2h, saved);
    CHECK(world.now() == JobState::kHeld);
  }
  LongJob world;
  world.fail_after(3h, 2h);
  for (int i = 0; i < 3; ++i) world.fail_after(23h);
  CHECK(world.now() == JobState::kHeld);
}

TEST_CASE("crash loop: a day without a fault is progress for a job that saves nothing") {
  LongJob world;
  for (int i = 0; i < 10; ++i) {
    world.fail_after(24h);
    REQUIRE(world.now() == JobState::kPending);
  }
}

TEST_CASE("crash loop: progress before it made way for others counts, too") {
  LongJob world;
  for (int i = 0; i < 3; ++i) world.fail_after(1h);
  world.clock += 1h;
  REQUIRE(world.schedule() == 1);
  const LeaseId lease = world.state.jobs.at(world.id).leases.front();
  REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
  world.clock += 25h;
  world.end(lease, EndReason::kPreempted, 143);
  CHECK(world.state.jobs.at(world.id).faults == 0);
  for (int i = 0; i < 3; ++i) world.fail_after(1h);
  CHECK(world.now() == JobState::kPending);
  world.fail_after(1h);
  CHECK(world.now() == JobState::kHeld);
}

TEST_CASE("crash loop: a job that is held stays so until somebody who may releases or stops it") {
  Loop world;
  world.node("a", 1);
  const JobId id = world.submit(world.ana, gpus(1));
  CHECK(world.run(ReleaseJob{id}, world.ana).error().rule == "held");
  world.run_for_a_day(id, EndReason::kNodeFault, 137);
  REQUIRE(world.state.jobs.at(id).state == JobState::kHeld);
  const auto again = decode_state(encode_state(world.state));
  REQUIRE(again);
  CHECK(again->jobs.at(id).state == JobState::kHeld);
  world.clock += 24h;
  CHECK(world.schedule() == 0);
  CHECK(world.run(ReleaseJob{id}, world.bo).error().reason == Reason::kNotFound);
  REQUIRE(world.run(ReleaseJob{id}, world.ana));
  CHECK(world.schedule() == 1);
  const LeaseId lease = world.state.jobs.at(id).leases.front();
  world.end(lease, EndReason::kNodeFault, 137);  // As if for the first time: it is tried again.
  CHECK(world.state.jobs.at(id).state == JobState::kPending);
  world.run_for_a_day(id, EndReason::kNodeFault, 137);
  REQUIRE(world.state.jobs.at(id).state == JobState::kHeld);
  REQUIRE(world.run(StopJob{id}, world.ana));
  CHECK(world.state.jobs.at(id).state == JobState::kStopped);
  CHECK(world.state.parties.at(world.acme).usage.gpu_milli == 0);
}

TEST_CASE("crash loop: its own failures bring a job back as often as it asked for") {
  Loop world;
  world.node("a", 1);
  Ask ask = gpus(1);
  ask.retries = 2;
  ask.retry_backoff = 10s;
  const JobId id = world.submit(world.ana, ask);
  world.run_for_a_day(id, EndReason::kExited, 1);
  CHECK(world.state.jobs.at(id).state == JobState::kFailed);
  CHECK(world.attempts == 3);
  REQUIRE(world.pauses.size() == 2);
  CHECK(world.pauses[0] < world.pauses[1]);
}

TEST_CASE("crash loop: others are preempted for it once an attempt at most") {
  Loop world;
  world.node("a", 1);
  Quota quota;
  quota.gpu_milli.guaranteed = 1000;
  REQUIRE(world.limit(world.acme, quota).has_value());
  Ask spare = gpus(1);
  spare.preemptible = true;
  const JobId lent = world.submit(world.bo, spare);
  CHECK(world.schedule() == 1);
  world.clock += 1h;
  const JobId id = world.submit(world.ana, gpus(1));
  world.run_for_a_day(id, EndReason::kNodeFault, 137);
  CHECK(world.attempts == 4);  // Whoever was stopped is spared for a while, and then asked again.
  CHECK(world.disturbed == world.attempts);
  // And whoever lent goes on when it is over.
  world.schedule();
  CHECK(world.state.jobs.at(lent).leases.size() == 1);
  CHECK_FALSE(is_over(world.state.jobs.at(lent).state));
}

TEST_CASE("crash loop: a job that went around the guard is not tried again") {
  Loop world;
  world.node("a", 1);
  Ask ask = gpus(1);
  ask.retries = 2;
  const JobId id = world.submit(world.ana, ask);
  world.run_for_a_day(id, EndReason::kWentAround, 137);
  CHECK(world.attempts == 1);
  CHECK(world.state.jobs.at(id).state == JobState::kFailed);
  CHECK(world.state.jobs.at(id).reason == EndReason::kWentAround);
}

}  // namespace
}  // namespace tranche::engine
