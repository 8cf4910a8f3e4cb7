// SPDX-License-Identifier: Apache-2.0
#include "engine/elastic.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Two tenants on one machine; what runs says so, and what is told to end ends.
struct Farm : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");

  explicit Farm(std::uint32_t devices) { node("a", devices); }

  void guarantee(PartyId tenant, std::int64_t milli) {
    Quota quota;
    quota.gpu_milli.guaranteed = milli;
    REQUIRE(limit(tenant, quota).has_value());
  }
  // Saves itself when told to.
  JobId train(PartyId user, std::uint32_t least, std::uint32_t most, std::uint32_t milli = 1000) {
    Ask ask = gpus(least, milli);
    ask.kind = wire::WorkloadKind::kTraining;
    ask.nodes = ask.nodes_min = least;
    ask.nodes_max = most;
    const JobId id{state.next_job};
    REQUIRE(run(SubmitJob{.ask = ask, .spec = R"({"run":"train","checkpoint":{"grace":"30s"}})"}, user)
                .has_value());
    return id;
  }
  const Job& job(JobId id) { return state.jobs.at(id); }
  std::size_t live(JobId id) {
    std::size_t count = 0;
    for (const LeaseId lease : job(id).leases) count += state.leases.at(lease).live();
    return count;
  }
  std::size_t revoked(JobId id, JobId for_whom) {
    std::size_t count = 0;
    for (const LeaseId lease : job(id).leases)
      count += state.leases.at(lease).revoked && state.leases.at(lease).promised_to == for_whom;
    return count;
  }
  void start() {
    schedule();
    for (const auto& [id, lease] : std::map(state.leases))
      if (lease.state == LeaseState::kGranted) REQUIRE(report(id, LeaseState::kRunning).has_value());
  }
  // All that were told to end have saved themselves and are gone.
  void obey() {
    for (const auto& [id, lease] : std::map(state.leases)) {
      if (!lease.live() || !lease.revoked) continue;
      REQUIRE(report(id, LeaseState::kEnded, EndReason::kExited, 143).has_value());
      REQUIRE(scrub(id).has_value());
    }
    for (const auto& [id, node] : std::map(state.nodes)) (void)accept(id);
    start();
  }
  std::int64_t held(PartyId party) { return state.parties.at(party).usage.gpu_milli; }
};

TEST_CASE("elastic: starts with what is free, and holds quota for what it has") {
  Farm farm(4);
  const JobId other = farm.submit(farm.ana, gpus(1));
  farm.start();
  const JobId training = farm.train(farm.bo, 2, 8);
  CHECK(farm.held(farm.globex) == 2000);  // It waits for the fewest that will do.
  farm.start();
  CHECK(farm.live(training) == 3);
  CHECK(farm.job(training).ask.nodes == 3);
  CHECK(farm.held(farm.globex) == 3000);
  CHECK(farm.live(other) == 1);
  for (const LeaseId lease : farm.job(training).leases)
    REQUIRE(farm.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  CHECK(farm.job(training).state == JobState::kSucceeded);
  CHECK(farm.held(farm.globex) == 0);
  const std::string bytes = encode_state(farm.state);
  CHECK(encode_state(*decode_state(bytes)) == bytes);
}

TEST_CASE("elastic: fewer than its least do not start it, and whoever else waits goes before its growth") {
  Farm farm(2);
  const JobId other = farm.submit(farm.ana, gpus(1));
  farm.start();
  const JobId training = farm.train(farm.bo, 2, 4);
  farm.start();
  CHECK(farm.job(training).state == JobState::kPending);
  farm.node("b", 2);
  const JobId behind = farm.submit(farm.bo, gpus(1));
  farm.start();
  CHECK(farm.live(training) == 2);
  CHECK(farm.live(behind) == 1);
  CHECK(farm.live(other) == 1);
}

TEST_CASE("elastic: what its members left unwiped for another tenant is not its own again before he has it") {
  Farm farm(1);
  for (const PartyId tenant : {farm.acme, farm.globex}) {
    Quota quota;
    quota.share_soft = true;
    if (tenant == farm.acme) quota.gpu_milli.guaranteed = 500;
    REQUIRE(farm.limit(tenant, quota).has_value());
  }
  const JobId training = farm.train(farm.bo, 1, 4, 250);
  farm.start();
  REQUIRE(farm.live(training) == 4);
  farm.clock += 1h;
  const JobId owner = farm.submit(farm.ana, gpus(1, 500));
  farm.schedule();
  const auto leases = farm.job(training).leases;
  wire::Receipts left;  // Their tenant has the device alone: nothing is wiped yet.
  for (const LeaseId lease : leases) {
    REQUIRE(farm.state.leases.at(lease).revoked);
    REQUIRE(farm.report(lease, LeaseState::kEnded, EndReason::kExited, 143).has_value());
    left.scrubs.push_back(
        {.device = farm.state.leases.at(lease).slices.front().device, .lease = lease, .deferred = true});
  }
  REQUIRE(farm.run(KeepReceipts{.node = farm.state.nodes.begin()->first, .receipts = left}).has_value());
  for (int pass = 0; pass < 3; ++pass) {
    farm.clock += 1s;
    REQUIRE(farm.run(Schedule{}).has_value());
    CHECK(farm.job(training).state == JobState::kPending);
  }
  for (const LeaseId lease : leases) {  // Not before the last of them is wiped.
    CHECK(farm.job(training).state == JobState::kPending);
    CHECK(farm.job(owner).state == JobState::kPending);
    REQUIRE(farm.scrub(lease).has_value());
    REQUIRE(farm.run(Schedule{}).has_value());
  }
  farm.start();
  CHECK(farm.job(owner).state == JobState::kRunning);
  CHECK(farm.live(training) == 2);
}

TEST_CASE("elastic: never grows past the quota of anybody above it") {
  Farm farm(4);
  REQUIRE(farm.limit(farm.globex, {.gpu_milli = at_most(3000)}).has_value());
  const JobId first = farm.train(farm.bo, 1, 4);
  const JobId second = farm.train(farm.bo, 1, 4);
  farm.start();
  CHECK(farm.live(first) + farm.live(second) == 3);
  CHECK(farm.held(farm.globex) == 3000);
}

TEST_CASE("elastic: an owner's reclaim shrinks it before it stops anybody else") {
  Farm farm(4);
  farm.guarantee(farm.acme, 2000);
  const JobId plain = farm.submit(farm.bo, gpus(1));  // Costs less to stop: it has just begun.
  farm.start();
  const JobId training = farm.train(farm.bo, 1, 8);
  farm.start();
  REQUIRE(farm.live(training) == 3);
  farm.clock += 30s;
  const JobId owner = farm.submit(farm.ana, gpus(2));
  farm.schedule();
  CHECK_FALSE(farm.state.leases.at(farm.job(plain).leases.front()).revoked);
  CHECK(farm.revoked(training, owner) == 2);     // What it has beyond its least, for the owner;
  CHECK(farm.revoked(training, training) == 1);  // the rest only starts again.
  farm.obey();
  CHECK(farm.live(owner) == 1);
  CHECK(farm.job(owner).state == JobState::kRunning);
  CHECK(farm.job(training).state == JobState::kRunning);
  CHECK(farm.live(training) == 1);
  CHECK(farm.job(training).reason == EndReason::kResized);
  CHECK(farm.held(farm.globex) == 2000);
  CHECK(farm.live(plain) == 1);
}

TEST_CASE("elastic: shrunk no further than its tenant's own guarantee") {
  Farm farm(4);
  farm.guarantee(farm.acme, 3000);
  farm.guarantee(farm.globex, 2000);
  const JobId training = farm.train(farm.bo, 1, 4);
  farm.start();
  REQUIRE(farm.live(training) == 4);
  const JobId owner = farm.submit(farm.ana, gpus(3));
  farm.schedule();
  CHECK(farm.revoked(training, owner) == 0);
  CHECK(farm.job(owner).state == JobState::kPending);
}

TEST_CASE("elastic: stopped like anybody else when what it can spare is not enough") {
  Farm farm(2);
  farm.guarantee(farm.acme, 2000);
  const JobId training = farm.train(farm.bo, 1, 2);
  farm.start();
  REQUIRE(farm.live(training) == 2);
  farm.clock += 1h;
  const JobId owner = farm.submit(farm.ana, gpus(2));
  farm.schedule();
  CHECK(farm.revoked(training, owner) == 2);
  farm.obey();
  CHECK(farm.job(owner).state == JobState::kRunning);
  CHECK(farm.job(training).state == JobState::kPending);
  CHECK(farm.job(training).reason == EndReason::kPreempted);
  CHECK(farm.held(farm.globex) == 1000);
}

TEST_CASE("elastic: grows into what is idle, when it has run for a while and can save itself") {
  Farm farm(4);
  const JobId other = farm.submit(farm.ana, gpus(2));
  farm.start();
  const JobId training = farm.train(farm.bo, 1, 8);
  farm.start();
  REQUIRE(farm.live(training) == 2);
  for (const LeaseId lease : farm.job(other).leases) {
    REQUIRE(farm.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
    REQUIRE(farm.scrub(lease).has_value());
  }
  for (const auto& [id, node] : std::map(farm.state.nodes)) (void)farm.accept(id);
  farm.schedule();
  CHECK(farm.revoked(training, training) == 0);  // It has just begun.
  farm.clock += 10min;
  REQUIRE(schedule_due(farm.state, farm.clock));
  farm.schedule();
  CHECK(farm.revoked(training, training) == 2);
  CHECK(farm.job(training).state == JobState::kStopping);
  farm.obey();
  CHECK(farm.live(training) == 4);
  CHECK(farm.held(farm.globex) == 4000);
  farm.clock += 1h;
  farm.schedule();
  CHECK(farm.revoked(training, training) == 0);  // There is nothing more to have.
}

TEST_CASE("elastic: what cannot save itself is not started again for its own good") {
  Farm farm(1);
  Ask ask = gpus(1);
  ask.nodes_min = 1;
  ask.nodes_max = 4;
  const JobId job = farm.submit(farm.bo, ask);
  farm.start();
  farm.node("b", 2);
  farm.clock += 1h;
  farm.schedule();
  CHECK(farm.revoked(job, job) == 0);
  CHECK(farm.live(job) == 1);
}

TEST_CASE("elastic: bounds that say nothing are refused") {
  Farm farm(1);
  Ask ask = gpus(2);
  ask.nodes = 2;
  ask.nodes_max = 4;
  const auto refused = farm.run(SubmitJob{.ask = ask, .spec = "{}"}, farm.bo);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().rule == "workers");
}

TEST_CASE("preemption: who was stopped is spared as long as the platform says") {
  Farm farm(1);
  Settings settings = farm.state.settings;
  settings.minimum_run = 5s;
  REQUIRE(farm.run(ChangeSettings{settings}, farm.root).has_value());
  farm.guarantee(farm.acme, 1000);
  const JobId lent = farm.submit(farm.bo, gpus(1));
  farm.start();
  farm.clock += 1h;
  const JobId first = farm.submit(farm.ana, gpus(1));
  farm.schedule();
  farm.obey();
  REQUIRE(farm.job(first).state == JobState::kRunning);
  REQUIRE(farm.report(farm.job(first).leases.front(), LeaseState::kEnded, EndReason::kExited).has_value());
  REQUIRE(farm.scrub(farm.job(first).leases.front()).has_value());
  farm.obey();
  REQUIRE(farm.job(lent).state == JobState::kRunning);
  const JobId second = farm.submit(farm.ana, gpus(1));
  farm.schedule();
  CHECK(farm.revoked(lent, second) == 0);
  farm.clock += 5s;
  REQUIRE(schedule_due(farm.state, farm.clock));
  farm.schedule();
  CHECK(farm.revoked(lent, second) == 1);
}

}  // namespace
}  // namespace tranche::engine
