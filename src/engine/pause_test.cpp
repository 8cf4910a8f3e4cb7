// SPDX-License-Identifier: Apache-2.0
// Jobs that somebody puts aside: what they give back and keep, who may, and that taking them up again passes
// every limit that a new one would.
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/film_world.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kSaves = R"({"run":"x","checkpoint":{"signal":"SIGUSR1","grace":"2m"}})";

struct Lab : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId eve = user(acme, "eve", {Role::kViewer});
  PartyId bo = user(globex, "bo");
  NodeId machine = node("a", 1);

  JobId submit_saving(PartyId who, Ask ask) {
    const JobId id{state.next_job};
    REQUIRE(run(SubmitJob{.name = "train", .ask = std::move(ask), .spec = kSaves}, who));
    return id;
  }
  const Job& job(JobId id) { return state.jobs.at(id); }
  LeaseId lease_of(JobId id) { return job(id).leases.front(); }
  const Usage& usage() { return state.parties.at(acme).usage; }
  void start(JobId id) {
    schedule();
    REQUIRE(job(id).state == JobState::kStarting);
    REQUIRE(report(lease_of(id), LeaseState::kRunning).has_value());
    clock += 1h;
  }
  // As the node does it: the process saved itself and ended by its signal; the slice is wiped.
  void end(JobId id, EndReason reason = EndReason::kExited, std::int32_t code = 138) {
    const LeaseId lease = lease_of(id);
    REQUIRE(report(lease, LeaseState::kEnded, reason, code).has_value());
    static_cast<void>(scrub(lease));
    static_cast<void>(accept(machine));
  }
  std::string refused(const Command& command, PartyId who) {
    const Decision decision = run(command, who);
    return decision ? "nothing" : decision.error().rule;
  }
};

TEST_CASE("pause: a running job saves itself, gives back its device and quota, and goes on when asked") {
  Lab lab;
  Ask ask = gpus(1);
  ask.storage_bytes = 500;
  const JobId id = lab.submit_saving(lab.ana, ask);
  const JobId next = lab.submit(lab.bo, gpus(1));
  lab.start(id);
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  const Lease& lease = lab.state.leases.at(lab.lease_of(id));
  CHECK(lease.revoked);
  CHECK(lease.revoke_reason == EndReason::kPaused);
  CHECK(lab.usage().gpu_milli == 1000);  // Until it has left.
  CHECK(explain(lab.state, {lab.ana}, lab.job(id)).reason == wire::WaitReason::kPaused);
  lab.end(id);
  CHECK(lab.job(id).state == JobState::kPaused);
  CHECK(lab.usage().gpu_milli == 0);
  CHECK(lab.usage().gpu_instances == 0);
  CHECK(lab.usage().jobs == 1);
  CHECK(lab.usage().storage_bytes == 500);
  CHECK(explain(lab.state, {lab.ana}, lab.job(id)).message.find("tranche resume") != std::string::npos);
  lab.start(next);  // What it had is there for others, and it takes nothing back by itself.
  lab.clock += 48h;
  CHECK(lab.schedule() == 0);
  lab.end(next, EndReason::kExited, 0);
  CHECK(lab.schedule() == 0);
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  CHECK(lab.usage().gpu_milli == 1000);
  CHECK(lab.usage().jobs == 1);
  lab.start(id);
  CHECK(lab.job(id).attempts == 2);
  CHECK(lab.job(id).faults == 0);
  lab.end(id, EndReason::kExited, 0);
  CHECK(lab.job(id).state == JobState::kSucceeded);
  CHECK(lab.usage() == Usage{});
}

TEST_CASE("pause: a waiting job stands in no queue until it is taken up again") {
  Lab lab;
  const JobId id = lab.submit(lab.ana, gpus(1));
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  CHECK(lab.job(id).state == JobState::kPaused);
  CHECK(lab.schedule() == 0);
  const auto again = decode_state(encode_state(lab.state));
  REQUIRE(again);
  CHECK(encode_state(*again) == encode_state(lab.state));
  lab.state = std::move(*decode_state(encode_state(lab.state)));
  CHECK(lab.schedule() == 0);
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  CHECK(lab.schedule() == 1);
}

TEST_CASE("pause: who may stop a job may pause it, and nobody else") {
  Lab lab;
  const JobId id = lab.submit(lab.ana, gpus(1));
  CHECK(lab.refused(PauseJob{id}, lab.eve) == "role");
  CHECK(lab.refused(PauseJob{id}, lab.bo) == "not_found");
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  CHECK(lab.refused(ResumeJob{id}, lab.eve) == "role");
  CHECK(lab.refused(ResumeJob{id}, lab.bo) == "not_found");
  CHECK(lab.refused(PauseJob{{77}}, lab.ana) == "not_found");
}

TEST_CASE("pause: what cannot be paused or resumed is refused with what can be done") {
  Lab lab;
  const JobId id = lab.submit_saving(lab.ana, gpus(1));
  CHECK(lab.refused(ResumeJob{id}, lab.ana) == "paused");
  lab.start(id);
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  CHECK(lab.refused(PauseJob{id}, lab.ana) == "paused");
  lab.end(id);
  CHECK(lab.refused(PauseJob{id}, lab.ana) == "paused");
  REQUIRE(lab.run(StopJob{id}, lab.ana));  // A paused job can be stopped, and is gone at once.
  CHECK(lab.job(id).state == JobState::kStopped);
  CHECK(lab.usage() == Usage{});
  CHECK(lab.refused(PauseJob{id}, lab.ana) == "ended");
  CHECK(lab.refused(ResumeJob{id}, lab.ana) == "ended");
  const JobId other = lab.submit_saving(lab.ana, gpus(1));
  lab.start(other);
  REQUIRE(lab.run(StopJob{other}, lab.ana));
  CHECK(lab.refused(PauseJob{other}, lab.ana) == "stopping");
  lab.end(other, EndReason::kStopped);
  const JobId held = lab.submit_saving(lab.ana, gpus(1));
  for (int fault = 0; fault < 4; ++fault) {
    lab.clock += 1h;
    lab.schedule();
    lab.end(held, EndReason::kNodeFault, 137);
  }
  REQUIRE(lab.job(held).state == JobState::kHeld);
  CHECK(lab.refused(PauseJob{held}, lab.ana) == "held");
}

TEST_CASE("pause: what a job would lose is said before, and not when it has not begun") {
  Lab lab;
  const JobId id = lab.submit(lab.ana, gpus(1));
  lab.start(id);
  CHECK(lab.refused(PauseJob{id}, lab.ana) == "checkpoint");
  CHECK_FALSE(lab.state.leases.at(lab.lease_of(id)).revoked);
  REQUIRE(lab.run(PauseJob{id, true}, lab.ana));
  lab.end(id);
  CHECK(lab.job(id).state == JobState::kPaused);
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  CHECK(lab.schedule() == 1);  // Its sandbox is being made: nothing is lost.
  CHECK(lab.run(PauseJob{id}, lab.ana).has_value());
}

TEST_CASE("pause: resuming passes every limit again, and a refusal leaves the job as it was") {
  Lab lab;
  lab.node("b", 2);
  Quota quota;
  quota.gpu_milli = at_most(1000);
  quota.jobs = at_most(2);
  REQUIRE(lab.limit(lab.acme, quota).has_value());
  Ask ask = gpus(1);
  ask.time = 2h;
  const JobId id = lab.submit(lab.ana, ask);
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  const JobId other = lab.submit(lab.ana, gpus(1));  // In the room that it gave back.
  const Decision full = lab.run(ResumeJob{id}, lab.ana);
  REQUIRE_FALSE(full);
  CHECK(full.error().rule == "gpu_milli");
  CHECK(full.error().limit == 1000);
  CHECK(full.error().used == 1000);
  CHECK(lab.job(id).state == JobState::kPaused);
  CHECK(lab.usage().gpu_milli == 1000);
  REQUIRE(lab.run(StopJob{other}, lab.ana));
  quota.jobs = at_most(1);  // It counts as a job already, and not twice.
  quota.per_job.time = 1h;
  REQUIRE(lab.limit(lab.acme, quota).has_value());
  CHECK(lab.refused(ResumeJob{id}, lab.ana) == "per_job.time");
  quota.per_job.time = 3h;
  REQUIRE(lab.limit(lab.acme, quota).has_value());
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  CHECK(lab.schedule() == 1);
}

TEST_CASE("pause: nothing is charged or held while a job is paused") {
  Studio studio;
  studio.price(units(60), {});
  Ask ask = gpus(1);
  ask.time = 10h;
  const JobId id{studio.state.next_job};
  REQUIRE(studio.run(SubmitJob{.name = "train", .ask = ask, .spec = kSaves}, studio.ana));
  CHECK(studio.schedule() == 1);
  const LeaseId lease = studio.state.jobs.at(id).leases.front();
  REQUIRE(studio.report(lease, LeaseState::kRunning).has_value());
  studio.clock += 30min;
  REQUIRE(studio.run(PauseJob{id}, studio.ana));
  REQUIRE(studio.report(lease, LeaseState::kEnded, EndReason::kExited, 138).has_value());
  REQUIRE(studio.scrub(lease).has_value());
  const std::int64_t before = studio.spent();
  CHECK(before == units(30).micros);
  CHECK(studio.state.meters.empty());
  const AccountId credit = credit_account(studio.state, studio.acme);
  CHECK(find_account(studio.state.ledger, credit)->held == Money{});
  studio.clock += 24h * 30;
  REQUIRE(studio.run(Tick{}));
  CHECK(studio.spent() == before);
  REQUIRE(studio.run(ResumeJob{id}, studio.ana));
  CHECK(studio.schedule() == 1);
  CHECK(studio.spent() == before);
  CHECK(studio.state.meters.size() == 1);
}

TEST_CASE("pause: a job whose node dies while it saves itself is paused, and waits for its person") {
  Lab lab;
  Ask ask = gpus(1);
  ask.preemptible = true;  // A device that comes back is on probation.
  const JobId id = lab.submit_saving(lab.ana, ask);
  lab.start(id);
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  REQUIRE(lab.run(LoseNode{lab.machine, "silent"}));
  CHECK(lab.job(id).state == JobState::kPaused);
  CHECK(lab.usage().gpu_milli == 0);
  wire::Hello back = World::hello("a", 1, "H100-SXM5-80GB");
  back.boot_id = "another";  // The machine is started again, and knows nothing of it.
  REQUIRE(lab.run(ReportNode{lab.machine, back}));
  for (int i = 0; i < 3; ++i) static_cast<void>(lab.accept(lab.machine));  // Tested and wiped.
  CHECK(lab.schedule() == 0);
  CHECK(lab.job(id).state == JobState::kPaused);
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  lab.start(id);
}

TEST_CASE("pause: whoever thinks better of it while the job saves itself has it queued again") {
  Lab lab;
  const JobId id = lab.submit_saving(lab.ana, gpus(1));
  lab.start(id);
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  CHECK(lab.usage().gpu_milli == 1000);
  lab.end(id);
  CHECK(lab.job(id).state == JobState::kPending);
  CHECK(lab.usage().gpu_milli == 1000);
  lab.start(id);
}

TEST_CASE("pause: an end that came first is what counts") {
  Lab lab;
  const JobId good = lab.submit_saving(lab.ana, gpus(1));
  lab.start(good);
  REQUIRE(lab.run(PauseJob{good}, lab.ana));
  lab.end(good, EndReason::kExited, 0);
  CHECK(lab.job(good).state == JobState::kSucceeded);
  CHECK(lab.usage() == Usage{});
}

TEST_CASE("pause: a job that waits for another waits on while it is paused") {
  Lab lab;
  const JobId first = lab.submit(lab.ana, gpus(1));
  const JobId second{lab.state.next_job};
  SubmitJob command{.name = "second", .ask = gpus(1), .spec = "{}"};
  command.after = {{first, true}};
  REQUIRE(lab.run(command, lab.ana));
  REQUIRE(lab.run(PauseJob{second}, lab.ana));
  lab.start(first);
  lab.end(first, EndReason::kExited, 0);
  CHECK(lab.schedule() == 0);
  CHECK(lab.job(second).state == JobState::kPaused);
  REQUIRE(lab.run(ResumeJob{second}, lab.ana));
  CHECK(lab.schedule() == 1);
}

TEST_CASE("pause: a film forms no chunk while it is paused, and no frame loses a try by it") {
  Studio studio;
  const JobId film{studio.state.next_job};
  SubmitJob command = studio.film(6, 2);
  command.unit_tries = 1;
  REQUIRE(studio.run(command, studio.ana));
  studio.schedule();
  const std::vector<LeaseId> began = studio.live();
  REQUIRE(began.size() == 2);
  for (const LeaseId id : began) REQUIRE(studio.report(id, LeaseState::kRunning).has_value());
  studio.frame_done(studio.state.leases.at(began.front()), 1);
  const Decision chunk = studio.run(PauseJob{studio.state.leases.at(began.front()).job}, studio.ana);
  REQUIRE_FALSE(chunk);
  CHECK(chunk.error().rule == "chunk");
  REQUIRE(studio.run(PauseJob{film}, studio.ana));
  for (const LeaseId id : began) {
    CHECK(studio.state.leases.at(id).revoked);
    REQUIRE(studio.report(id, LeaseState::kEnded, EndReason::kExited, 143).has_value());
    REQUIRE(studio.scrub(id).has_value());
  }
  studio.schedule();
  const JobGroup& group = studio.state.work.groups.at(film);
  CHECK(studio.state.jobs.at(film).state == JobState::kPaused);
  CHECK(group.chunks.empty());
  CHECK(wire::count_of(group.waiting) == 5);
  CHECK(group.failures.empty());
  CHECK(studio.state.parties.at(studio.acme).usage.gpu_milli == 0);
  REQUIRE(studio.run(ResumeJob{film}, studio.ana));
  studio.schedule();
  CHECK(studio.live().size() == 2);
}

TEST_CASE("pause: a start is not late by the time that its owner had the job put aside") {
  Lab lab;
  REQUIRE(lab.run(SetLevel{{lab.acme, "gold"}, {.start_within = 5min, .credit_percent = 10}}, lab.root));
  const JobId id = lab.submit(lab.ana, gpus(1));
  REQUIRE(lab.run(PauseJob{id}, lab.ana));
  lab.clock += 10h;
  REQUIRE(lab.run(ResumeJob{id}, lab.ana));
  lab.clock += 1min;
  lab.start(id);
  lab.schedule();
  const ServiceLevel& level = lab.state.work.levels.begin()->second;
  CHECK(level.kept == 1);
  CHECK(level.missed == 0);
}

// Whatever is paused, resumed, stopped, ended and lost in whatever order: what a tenant holds is what its
// jobs hold, recounted.
TEST_CASE("pause: over random days a tenant holds what its jobs hold") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Lab lab;
    lab.node("b", 2);
    Quota quota;
    quota.gpu_milli = at_most(4000);
    REQUIRE(lab.limit(lab.acme, quota).has_value());
    for (int step = 0; step < 200; ++step) {
      lab.clock += std::chrono::minutes(random.below(60));
      const JobId any{1 + random.below(lab.state.next_job)};
      switch (random.below(7)) {
        case 0:
        case 1:
          static_cast<void>(lab.run(SubmitJob{.name = "n", .ask = gpus(1, 500), .spec = kSaves}, lab.ana));
          break;
        case 2:
          static_cast<void>(lab.run(PauseJob{any}, lab.ana));
          break;
        case 3:
          static_cast<void>(lab.run(ResumeJob{any}, lab.ana));
          break;
        case 4:
          static_cast<void>(lab.run(StopJob{any}, lab.ana));
          break;
        case 5:
          for (const auto& [id, lease] : std::map(lab.state.leases.begin(), lab.state.leases.end())) {
            if (!lease.live() || random.below(2) == 0) continue;
            if (lease.state == LeaseState::kGranted) {
              static_cast<void>(lab.report(id, LeaseState::kRunning));
            } else {
              const bool fault = random.below(3) == 0;
              static_cast<void>(lab.report(id,
                                           LeaseState::kEnded,
                                           fault ? EndReason::kPlatformFault : EndReason::kExited,
                                           static_cast<std::int32_t>(random.below(2))));
              static_cast<void>(lab.scrub(id));
            }
          }
          break;
        default:
          lab.schedule();
      }
      Usage recounted;
      for (const auto& [id, job] : lab.state.jobs) {
        if (is_over(job.state)) continue;
        recounted.jobs += 1;
        if (!job.is_put_aside()) recounted.gpu_milli += job.ask.gpu_milli();
        for (const LeaseId lease : job.leases)
          CHECK_FALSE((job.is_put_aside() && lab.state.leases.at(lease).live()));
      }
      REQUIRE(lab.usage().jobs == recounted.jobs);
      REQUIRE(lab.usage().gpu_milli == recounted.gpu_milli);
    }
  }
}

}  // namespace
}  // namespace tranche::engine
