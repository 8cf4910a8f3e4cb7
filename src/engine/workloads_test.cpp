// SPDX-License-Identifier: Apache-2.0
#include "engine/workloads.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

// A farm with one node, one user, and whatever runs on it.
struct Farm : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId gpu_node = node("gpu-01", 2);
  std::uint64_t heard = 0;

  JobId render(std::int64_t frames, std::uint32_t chunk, std::uint32_t tries = 3) {
    const JobId id{state.next_job};
    SubmitJob command{.name = "film", .ask = gpus(1), .spec = "{}"};
    command.unit = WorkUnit::kFrame;
    command.units = {.first = 1, .last = frames};
    command.chunk = chunk;
    command.unit_tries = tries;
    REQUIRE(run(command, ana));
    schedule();
    return id;
  }
  const JobGroup& group(JobId id) { return state.work.groups.at(id); }
  LeaseId lease_of(JobId id) { return state.jobs.at(id).leases.front(); }
  std::vector<JobId> running() {
    std::vector<JobId> found;
    for (const auto& [id, lease] : state.leases)
      if (lease.live()) found.push_back(lease.job);
    return found;
  }
  void verdict(JobId chunk, std::int64_t unit, bool good) {
    const Lease& lease = state.leases.at(lease_of(chunk));
    NoteProgress note{.node = lease.node, .sequence = ++heard};
    note.report = {.lease = lease.id, .epoch = lease.epoch, .at = clock};
    note.report.verdicts = {{.unit = unit, .good = good, .exit_code = good ? 0 : 3, .microseconds = 1000}};
    REQUIRE(run(note));
  }
  void end(JobId chunk, std::int32_t code) {
    const LeaseId lease = lease_of(chunk);
    REQUIRE(scrub(lease));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited, code));
    schedule();
  }
  // Works a chunk off; `bad` fails.
  void work(JobId chunk, std::int64_t bad = 0) {
    REQUIRE(report(lease_of(chunk), LeaseState::kRunning));
    schedule();
    bool failed = false;
    for (const UnitRange& range : units_left(state, chunk)) {
      for (std::int64_t unit = range.first; unit <= range.last; ++unit) {
        verdict(chunk, unit, unit != bad);
        failed = failed || unit == bad;
      }
    }
    end(chunk, failed ? 1 : 0);
  }
};

TEST_CASE("workloads: every frame is done once, chunk by chunk, and the job ends well") {
  Farm farm;
  const JobId film = farm.render(10, 3);
  CHECK(farm.running().size() == 2);  // Two devices; the other chunks wait.
  CHECK(farm.state.jobs.at(film).ask.instances == 0);
  for (int turn = 0; turn < 20 && !farm.running().empty(); ++turn) farm.work(farm.running().front());
  CHECK(farm.state.jobs.at(film).state == JobState::kSucceeded);
  CHECK(farm.group(film).done == 10);
  CHECK(farm.group(film).past.size() == 4);
  CHECK(farm.group(film).failures.empty());
  CHECK(farm.state.party(farm.acme)->usage.gpu_milli == 0);
}

TEST_CASE("workloads: a frame that always fails is named while all the others finish") {
  Farm farm;
  const JobId film = farm.render(8, 4);
  for (int turn = 0; turn < 40 && !farm.running().empty(); ++turn) farm.work(farm.running().front(), 3);
  const Job& job = farm.state.jobs.at(film);
  CHECK(job.state == JobState::kFailed);
  CHECK(job.reason == EndReason::kUnitsFailed);
  CHECK(job.message == "1 of 8 frames failed: frame 3 (exit 3, 3 tries)");
  CHECK(farm.group(film).done == 7);
  REQUIRE(farm.group(film).failures.size() == 1);
  CHECK(farm.group(film).failures.front().given_up);
}

TEST_CASE("workloads: a chunk that dies halfway blames the frame it was at, and no other") {
  Farm farm;
  const JobId film = farm.render(4, 4, 2);
  const JobId chunk = farm.running().front();
  REQUIRE(farm.report(farm.lease_of(chunk), LeaseState::kRunning));
  farm.verdict(chunk, 1, true);
  farm.end(chunk, 137);
  REQUIRE(farm.group(film).failures.size() == 1);
  CHECK(farm.group(film).failures.front().unit == 2);
  CHECK(farm.group(film).failures.front().tries == 1);
  for (int turn = 0; turn < 20 && !farm.running().empty(); ++turn) farm.work(farm.running().front());
  CHECK(farm.state.jobs.at(film).state == JobState::kSucceeded);
  CHECK(farm.group(film).done == 4);
}

TEST_CASE("workloads: frames that never start are tried a bounded number of times") {
  Farm farm;
  const JobId film = farm.render(3, 3, 2);
  int ends = 0;
  for (; ends < 50 && !farm.running().empty(); ++ends) farm.end(farm.running().front(), 1);
  CHECK(farm.state.jobs.at(film).state == JobState::kFailed);
  CHECK(farm.group(film).given_up == 3);
  CHECK(ends <= 4);
}

TEST_CASE("workloads: after a fault of the platform only the frames left are done again") {
  Farm farm;
  farm.render(5, 5);
  const JobId chunk = farm.running().front();
  REQUIRE(farm.report(farm.lease_of(chunk), LeaseState::kRunning));
  farm.verdict(chunk, 1, true);
  farm.verdict(chunk, 2, true);
  const LeaseId lease = farm.lease_of(chunk);
  REQUIRE(farm.scrub(lease));
  REQUIRE(farm.report(lease, LeaseState::kEnded, EndReason::kNodeFault));
  CHECK(farm.state.jobs.at(chunk).state == JobState::kPending);
  CHECK(wire::text(units_left(farm.state, chunk)) == "3-5");
}

TEST_CASE("workloads: a chunk that has told its last frame is not begun again when its node is lost") {
  Farm farm;
  const JobId film = farm.render(4, 2);
  const std::vector<JobId> chunks = farm.running();
  REQUIRE(chunks.size() == 2);
  for (const JobId chunk : chunks) REQUIRE(farm.report(farm.lease_of(chunk), LeaseState::kRunning));
  farm.verdict(chunks[0], 1, true);
  farm.verdict(chunks[0], 2, true);
  const LeaseId lease = farm.lease_of(chunks[0]);
  REQUIRE(farm.scrub(lease));
  REQUIRE(farm.report(lease, LeaseState::kEnded, EndReason::kNodeFault));
  farm.schedule();
  CHECK(farm.state.jobs.at(chunks[0]).state == JobState::kStopped);
  CHECK(farm.running() == std::vector<JobId>{chunks[1]});
  farm.verdict(chunks[1], 3, true);
  farm.verdict(chunks[1], 4, true);
  farm.end(chunks[1], 0);
  CHECK(farm.state.jobs.at(film).state == JobState::kSucceeded);
  CHECK(farm.group(film).done == 4);
  CHECK(farm.group(film).failures.empty());
}

TEST_CASE("workloads: quota holds at every moment, and a group goes on as it becomes free") {
  Farm farm;
  Quota quota;
  quota.gpu_milli = at_most(1000);
  REQUIRE(farm.limit(farm.acme, quota));
  const JobId film = farm.render(6, 2);
  CHECK(farm.group(film).chunks.size() == 1);
  int turns = 0;
  for (; turns < 20 && !farm.running().empty(); ++turns) {
    CHECK(farm.state.party(farm.acme)->usage.gpu_milli <= 1000);
    farm.work(farm.running().front());
  }
  CHECK(turns == 3);
  CHECK(farm.state.jobs.at(film).state == JobState::kSucceeded);
}

TEST_CASE("workloads: stopping the whole stops its chunks, and nothing new is formed") {
  Farm farm;
  const JobId film = farm.render(20, 2);
  REQUIRE(farm.run(StopJob{film}, farm.ana));
  farm.schedule();
  for (const JobId chunk : farm.running()) {
    REQUIRE(farm.scrub(farm.lease_of(chunk)));
    REQUIRE(farm.report(farm.lease_of(chunk), LeaseState::kEnded, EndReason::kStopped));
  }
  farm.schedule();
  CHECK(farm.state.jobs.at(film).state == JobState::kStopped);
  CHECK(farm.running().empty());
  CHECK(farm.state.party(farm.acme)->usage.gpu_milli == 0);
}

TEST_CASE("workloads: verdicts of a stale lease, and verdicts said twice, do not count") {
  Farm farm;
  const JobId film = farm.render(4, 4);
  const JobId chunk = farm.running().front();
  farm.verdict(chunk, 1, true);
  farm.verdict(chunk, 1, true);
  CHECK(farm.group(film).done == 1);
  NoteProgress note{.node = farm.gpu_node, .sequence = ++farm.heard};
  note.report = {.lease = farm.lease_of(chunk), .epoch = 1, .at = farm.clock};
  note.report.verdicts = {{.unit = 2, .good = true}};
  REQUIRE(farm.run(note));
  CHECK(farm.group(film).done == 1);
}

TEST_CASE("workloads: progress gives a rate and the time left") {
  Farm farm;
  const JobId id = farm.submit(farm.ana, gpus(1));
  farm.schedule();
  const Lease& lease = farm.state.leases.at(farm.lease_of(id));
  for (const std::int64_t done : {0, 10, 20}) {
    NoteProgress note{.node = lease.node, .sequence = ++farm.heard};
    note.report = {
        .lease = lease.id, .epoch = lease.epoch, .unit = WorkUnit::kStep, .done = done, .total = 100};
    REQUIRE(farm.run(note));
    farm.clock += std::chrono::seconds(10);
  }
  const JobProgress& progress = farm.state.work.progress.at(id);
  CHECK(progress.rate_milli() == 1000);
  CHECK(time_for(progress.total - progress.done, progress.rate_milli()) ==
        Duration(std::chrono::seconds(80)));
}

TEST_CASE("workloads: a job waits for another, and says so") {
  Farm farm;
  const JobId first = farm.submit(farm.ana, gpus(1));
  const JobId second{farm.state.next_job};
  SubmitJob command{.ask = gpus(1), .spec = "{}"};
  command.after = {{first, false}};
  REQUIRE(farm.run(command, farm.ana));
  farm.schedule();
  CHECK(farm.running() == std::vector{first});
  const Actor actor{farm.ana};
  CHECK(explain(farm.state, actor, farm.state.jobs.at(second)).reason == wire::WaitReason::kDependency);
  farm.end(first, 0);
  CHECK(farm.running() == std::vector{second});
}

TEST_CASE("workloads: a failed dependency ends the waiter and all who wait for it, any does not mind") {
  Farm farm;
  const JobId first = farm.submit(farm.ana, gpus(1));
  const auto wait_for = [&](JobId job, bool any) {
    const JobId id{farm.state.next_job};
    SubmitJob command{.ask = gpus(1), .spec = "{}"};
    command.after = {{job, any}};
    REQUIRE(farm.run(command, farm.ana));
    return id;
  };
  const JobId strict = wait_for(first, false);
  const JobId behind = wait_for(strict, false);
  const JobId easy = wait_for(first, true);
  farm.schedule();
  farm.end(first, 1);
  CHECK(farm.state.jobs.at(strict).state == JobState::kFailed);
  CHECK(farm.state.jobs.at(strict).reason == EndReason::kDependencyFailed);
  CHECK(farm.state.jobs.at(behind).state == JobState::kFailed);
  CHECK(farm.running() == std::vector{easy});
  SubmitJob late{.ask = gpus(1), .spec = "{}"};
  late.after = {{first, false}};
  CHECK_FALSE(farm.run(late, farm.ana));
  late.after = {{JobId{999}, false}};
  CHECK_FALSE(farm.run(late, farm.ana));
}

TEST_CASE("workloads: a snapshot keeps groups and waiters, and what is derived is rebuilt") {
  Farm farm;
  const JobId film = farm.render(10, 2);
  SubmitJob command{.ask = gpus(1), .spec = "{}"};
  command.after = {{film, false}};
  REQUIRE(farm.run(command, farm.ana));
  const std::string bytes = encode_state(farm.state);
  auto read = decode_state(bytes);
  REQUIRE(read);
  CHECK(encode_state(*read) == bytes);
  CHECK(read->index.work->group_of == farm.state.index.work->group_of);
  CHECK(read->index.work->waiters == farm.state.index.work->waiters);
  CHECK(read->index.capacity->waiting().size() == farm.state.index.capacity->waiting().size());
}

TEST_CASE("workloads: replicas are admitted like jobs, bounded, and gone when they end") {
  Farm farm;
  SetService set{.name = "chat", .replicas_max = 1, .spec = "{}", .versions = {{"v1", gpus(1), "{}"}}};
  REQUIRE(farm.run(set, farm.ana));
  const ServiceKey key{farm.acme, "chat"};
  REQUIRE(farm.run(AddReplica{key, "v1"}));
  REQUIRE(farm.run(AddReplica{key, "v1"}));  // One more, for a rolling update.
  CHECK_FALSE(farm.run(AddReplica{key, "v1"}));
  CHECK_FALSE(farm.run(AddReplica{key, "v9"}));
  farm.schedule();
  const JobId replica = farm.state.work.services.at(key).replicas.front().job;
  REQUIRE(farm.run(RetireReplica{key, replica}));
  CHECK(farm.state.work.services.at(key).replicas.front().retiring);
  farm.end(replica, 0);
  CHECK(farm.state.work.services.at(key).replicas.size() == 1);
  REQUIRE(farm.run(CountRequests{key, {.requests = 5, .tokens_out = 7}}));
  CHECK(farm.state.work.services.at(key).use.tokens_out == 7);
  REQUIRE(farm.run(RemoveService{key}, farm.ana));
  CHECK(farm.state.work.services.empty());
}

// Two chunks of one frame each on two devices: the first is done, the second takes for ever.
struct Straggling : Farm {
  JobId film = render(2, 1);
  JobId quick = running().front();
  JobId slow = running().back();
  Straggling() {
    REQUIRE(report(lease_of(quick), LeaseState::kRunning));
    REQUIRE(report(lease_of(slow), LeaseState::kRunning));
    verdict(quick, state.work.groups.at(film).chunk_of(quick)->left.front().first, true);
    end(quick, 0);
  }
  JobId copy() {
    clock += std::chrono::seconds(6);
    schedule();
    const Chunk& last = group(film).chunks.back();
    REQUIRE(last.copy_of == slow);
    return last.job;
  }
};

TEST_CASE("workloads: what takes too long is tried a second time with idle capacity, once") {
  Straggling farm;
  farm.clock += std::chrono::seconds(4);
  farm.schedule();
  CHECK(farm.group(farm.film).chunks.size() == 1);  // Not yet.
  const JobId copy = farm.copy();
  CHECK(farm.state.jobs.at(copy).ask.preemptible);
  CHECK(farm.state.jobs.at(copy).ask.priority == 0);
  farm.clock += std::chrono::hours(1);
  farm.schedule();
  CHECK(farm.group(farm.film).chunks.size() == 2);
}

TEST_CASE("workloads: whoever is first counts, the other is stopped, and the frame is done once") {
  Straggling farm;
  const JobId copy = farm.copy();
  REQUIRE(farm.report(farm.lease_of(copy), LeaseState::kRunning));
  farm.verdict(copy, farm.group(farm.film).chunks.back().left.front().first, true);
  CHECK(farm.group(farm.film).done == 2);
  farm.end(copy, 0);
  CHECK(farm.state.jobs.at(farm.slow).stop_requested);
  REQUIRE(farm.scrub(farm.lease_of(farm.slow)));
  REQUIRE(farm.report(farm.lease_of(farm.slow), LeaseState::kEnded, EndReason::kStopped));
  farm.schedule();
  CHECK(farm.state.jobs.at(farm.film).state == JobState::kSucceeded);
  CHECK(farm.group(farm.film).done == 2);
  CHECK(farm.group(farm.film).failures.empty());
}

TEST_CASE("workloads: a copy that fails costs no try while the first one goes on") {
  Straggling farm;
  const JobId copy = farm.copy();
  REQUIRE(farm.report(farm.lease_of(copy), LeaseState::kRunning));
  farm.verdict(copy, farm.group(farm.film).chunks.back().left.front().first, false);
  farm.end(copy, 1);
  CHECK(farm.group(farm.film).failures.empty());
  farm.end(farm.slow, 0);
  CHECK(farm.state.jobs.at(farm.film).state == JobState::kSucceeded);
}

TEST_CASE("workloads: among a tenant's jobs the nearest deadline starts first") {
  Farm farm;
  const auto ask_by = [&](std::chrono::minutes in) {
    Ask ask = gpus(2);
    ask.time = std::chrono::minutes(10);
    if (in.count() != 0) ask.deadline = farm.clock + in;
    return ask;
  };
  const JobId whole = farm.submit(farm.ana, gpus(2));
  farm.schedule();
  const JobId plain = farm.submit(farm.ana, ask_by(std::chrono::minutes(0)));
  const JobId later = farm.submit(farm.ana, ask_by(std::chrono::minutes(90)));
  const JobId sooner = farm.submit(farm.ana, ask_by(std::chrono::minutes(60)));
  const JobId next_month = farm.submit(farm.ana, ask_by(std::chrono::hours(24 * 30)));
  farm.end(whole, 0);
  for (const JobId expected : {sooner, later, plain, next_month}) {
    REQUIRE(farm.running() == std::vector{expected});
    farm.end(expected, 0);
  }
  Ask late = gpus(1);
  late.deadline = farm.clock - std::chrono::minutes(1);
  const auto refused = farm.run(SubmitJob{.ask = late, .spec = "{}"}, farm.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "deadline");
}

}  // namespace
}  // namespace tranche::engine
