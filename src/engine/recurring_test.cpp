// SPDX-License-Identifier: Apache-2.0
#include "engine/recurring.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;

struct Night : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 1);
  RecurringKey key{acme, "nightly"};

  Decision set(std::vector<Instant> times, const Ask& ask = gpus(1)) {
    return run(SetRecurring{.name = "nightly",
                            .job = {.ask = ask, .spec = "{}"},
                            .every = "day 22:00",
                            .zone = "UTC",
                            .times = std::move(times)},
               ana);
  }
  const RecurringJob& job() { return state.work.recurring.at(key); }
  void finish(JobId id) {
    const LeaseId lease = state.jobs.at(id).leases.front();
    REQUIRE(report(lease, LeaseState::kRunning));
    REQUIRE(scrub(lease));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited));
  }
};

TEST_CASE("recurring: it runs when its time comes, once each time, and not before") {
  Night night;
  const Instant first = night.clock + hours(1);
  REQUIRE(night.set({first, first + hours(24)}));
  night.schedule();
  CHECK(night.state.jobs.empty());
  night.clock = first;
  night.schedule();
  REQUIRE(night.job().last != JobId{});
  CHECK(night.state.jobs.at(night.job().last).state != JobState::kPending);
  CHECK(night.job().times == std::vector{first + hours(24)});
  night.schedule();
  CHECK(night.job().runs == 1);
}

TEST_CASE("recurring: while a run goes on the next time is passed over, and said so") {
  Night night;
  const Instant first = night.clock + hours(1);
  REQUIRE(night.set({first, first + hours(1), first + hours(2)}));
  night.clock = first;
  night.schedule();
  const JobId run = night.job().last;
  night.clock += hours(1);
  night.schedule();
  CHECK(night.job().last == run);
  CHECK(night.job().passed_over == 1);
  CHECK(night.job().problem == text(run) + ", the run before, has not ended");
  night.finish(run);
  night.clock += hours(1);
  night.schedule();
  CHECK(night.job().last != run);
  CHECK(night.job().runs == 2);
  CHECK(night.job().problem.empty());
  CHECK(night.job().times.empty());
}

TEST_CASE("recurring: times that nobody was there for become one run") {
  Night night;
  const Instant first = night.clock + hours(1);
  REQUIRE(night.set({first, first + hours(1), first + hours(2), first + hours(99)}));
  night.clock += hours(10);
  night.schedule();
  CHECK(night.job().runs == 1);
  CHECK(night.job().times.size() == 1);
}

TEST_CASE("recurring: a run that is not admitted says why, and the next one is tried again") {
  Night night;
  const Instant first = night.clock + hours(1);
  REQUIRE(night.set({first, first + hours(1)}));
  Quota none;
  none.gpu_milli = at_most(0);
  REQUIRE(night.limit(night.acme, none));
  night.clock = first;
  night.schedule();
  CHECK(night.job().runs == 0);
  CHECK_FALSE(night.job().problem.empty());
  Quota some;
  some.gpu_milli = at_most(1000);
  REQUIRE(night.limit(night.acme, some));
  night.clock += hours(1);
  night.schedule();
  CHECK(night.job().runs == 1);
}

TEST_CASE("recurring: what makes no sense is refused, and what is removed runs no more") {
  Night night;
  const Instant first = night.clock + hours(1);
  CHECK_FALSE(night.set({}));
  CHECK_FALSE(night.set({first + hours(1), first}));
  REQUIRE(night.set({first}));
  const PartyId stranger = night.user(night.create(PartyKind::kTenant, kPlatform, "blue"), "eve");
  CHECK_FALSE(night.run(RemoveRecurring{night.key}, stranger));
  REQUIRE(night.run(RemoveRecurring{night.key}, night.ana));
  night.clock += hours(2);
  night.schedule();
  CHECK(night.state.jobs.empty());
}

TEST_CASE("recurring: times that follow are added, and a plan that was overtaken is not") {
  Night night;
  const Instant first = night.clock + hours(1);
  REQUIRE(night.set({first}));
  CHECK(night.run(PlanRecurring{night.key, 0, {first + hours(24)}, 7})->empty());  // No rule: these are all.
  SetRecurring again{.name = "nightly",
                     .job = {.ask = gpus(1), .spec = "{}"},
                     .every = "day 22:00",
                     .zone = "UTC",
                     .times = {first},
                     .rule = "FREQ=DAILY",
                     .planned_to = 100};
  REQUIRE(night.run(again, night.ana));
  CHECK(night.run(PlanRecurring{night.key, 99, {first + hours(24)}, 200})->empty());
  CHECK(night.run(PlanRecurring{night.key, 100, {first}, 200})->empty());
  REQUIRE(night.run(PlanRecurring{night.key, 100, {first + hours(24)}, 200})->size() == 1);
  CHECK(night.job().times == std::vector{first, first + hours(24)});
  night.clock = first + hours(30);  // Both have passed: one run, and none is left to wake for.
  night.schedule();
  CHECK(night.job().runs == 1);
  REQUIRE(night.run(PlanRecurring{night.key, 200, {first + hours(48)}, 300})->size() == 1);
  night.finish(night.job().last);
  night.clock = first + hours(48);
  night.schedule();
  CHECK(night.job().runs == 2);
  REQUIRE(night.run(PlanRecurring{night.key, 300, {}, 300})->size() == 1);  // The rule has come to its end.
  CHECK(night.job().rule.empty());
}

TEST_CASE("recurring: a snapshot keeps it, and its next time is known again") {
  Night night;
  REQUIRE(night.set({night.clock + hours(1)}));
  const std::string bytes = encode_state(night.state);
  auto read = decode_state(bytes);
  REQUIRE(read);
  CHECK(encode_state(*read) == bytes);
  CHECK(read->index.work->runs == night.state.index.work->runs);
}

}  // namespace
}  // namespace tranche::engine
