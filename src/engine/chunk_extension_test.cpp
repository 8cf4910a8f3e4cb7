// SPDX-License-Identifier: Apache-2.0
// Chunks that go on with more units: every unit is counted here, by the test, over all places where it can
// be.
#include "engine/chunk_extension.hpp"

#include <doctest/doctest.h>
#include <set>

#include "engine/workloads.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kFrameMicroseconds = 100'000;

struct Studio : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId gpu_node = node("gpu-01", 2);
  std::uint64_t heard = 0;
  JobId film{};

  explicit Studio(std::int64_t frames) {
    film = {state.next_job};
    SubmitJob command{.name = "film", .ask = gpus(1), .spec = "{}"};
    command.unit = WorkUnit::kFrame;
    command.units = {.first = 1, .last = frames};
    command.unit_tries = 3;
    REQUIRE(run(command, ana));
    schedule();
    for (const JobId chunk : running()) REQUIRE(report(lease_of(chunk), LeaseState::kRunning));
    schedule();
  }
  const JobGroup& group() { return state.work.groups.at(film); }
  LeaseId lease_of(JobId id) { return state.jobs.at(id).leases.front(); }
  std::vector<JobId> running() {
    std::vector<JobId> found;
    for (const auto& [id, lease] : state.leases)
      if (lease.live()) found.push_back(lease.job);
    return found;
  }
  UnitSet left(JobId chunk) {
    const Chunk* found = group().chunk_of(chunk);
    return found == nullptr ? UnitSet{} : found->left;
  }
  void verdict(JobId chunk, std::int64_t unit, bool good = true) {
    const Lease& lease = state.leases.at(lease_of(chunk));
    NoteProgress note{.node = lease.node, .sequence = ++heard};
    note.report = {.lease = lease.id, .epoch = lease.epoch, .at = clock};
    note.report.verdicts = {
        {.unit = unit, .good = good, .exit_code = good ? 0 : 3, .microseconds = kFrameMicroseconds}};
    REQUIRE(run(note));
    schedule();
  }
  void end(JobId chunk, std::int32_t code) {
    REQUIRE(scrub(lease_of(chunk)));
    REQUIRE(report(lease_of(chunk), LeaseState::kEnded, EndReason::kExited, code));
    schedule();
  }
  // Every frame is in exactly one place, or done.
  void check_all_there() {
    std::int64_t count = wire::count_of(group().waiting) + group().done + group().given_up;
    for (const Chunk& chunk : group().chunks) count += wire::count_of(chunk.left);
    CHECK(count == group().range.count());
    std::set<std::int64_t> seen;
    const auto see = [&](const UnitSet& units) {
      for (const UnitRange& range : units)
        for (std::int64_t unit = range.first; unit <= range.last; ++unit) CHECK(seen.insert(unit).second);
    };
    see(group().waiting);
    for (const Chunk& chunk : group().chunks) see(chunk.left);
  }
};

TEST_CASE("chunk extension: two sandboxes do a whole film, and end together") {
  Studio studio(240);
  const std::vector<JobId> first = studio.running();
  REQUIRE(first.size() == 2);
  std::map<JobId, std::int64_t> done;
  for (int turn = 0; turn < 1000 && studio.state.jobs.at(studio.film).state == JobState::kRunning; ++turn) {
    studio.clock += Duration(kFrameMicroseconds);  // Both do a frame at the same time.
    for (const JobId chunk : first) {
      const UnitSet units = studio.left(chunk);
      if (units.empty()) continue;
      studio.verdict(chunk, units.front().first);
      ++done[chunk];
    }
    studio.check_all_there();
  }
  CHECK(studio.state.jobs.at(studio.film).state == JobState::kSucceeded);
  CHECK(studio.group().done == 240);
  CHECK(done[first[0]] + done[first[1]] == 240);  // Nobody else had one.
  CHECK(std::abs(done[first[0]] - done[first[1]]) <= 2);
  for (const JobId chunk : first) studio.end(chunk, 0);
  CHECK(studio.group().chunks.empty());
  CHECK(studio.running().empty());
  CHECK(studio.state.party(studio.acme)->usage.gpu_milli == 0);
}

TEST_CASE("chunk extension: as many make way as others need places, and the rest goes on") {
  Studio studio(240);
  const PartyId ben = studio.user(studio.create(PartyKind::kTenant, kPlatform, "other"), "ben");
  const JobId first = studio.running().front(), second = studio.running().back();
  const JobId waits = studio.submit(ben, gpus(1));
  studio.schedule();
  std::map<JobId, std::int64_t> most;
  for (int turn = 0; turn < 3; ++turn) {
    for (const JobId chunk : {first, second}) {
      studio.clock += Duration(kFrameMicroseconds);
      if (!studio.left(chunk).empty()) studio.verdict(chunk, studio.left(chunk).front().first);
      most[chunk] = std::max(most[chunk], wire::count_of(studio.left(chunk)));
    }
  }
  const auto [fewer, more] = std::minmax(most[first], most[second]);
  CHECK(fewer < 15);  // As it was formed, less what it has done.
  CHECK(more > 15);
  REQUIRE(studio.run(StopJob{waits}, ben));
}

TEST_CASE("chunk extension: whoever waits for what is not there stands in nobody's way") {
  Studio studio(240);
  const PartyId ben = studio.user(studio.create(PartyKind::kTenant, kPlatform, "other"), "ben");
  for (int i = 0; i < 2; ++i) {
    Ask elsewhere = gpus(1);
    elsewhere.model = "B200-SXM";
    elsewhere.may_burst = true;  // Else it would be refused.
    studio.submit(ben, elsewhere);
  }
  studio.schedule();
  const JobId chunk = studio.running().front();
  const std::int64_t before = wire::count_of(studio.left(chunk));
  studio.verdict(chunk, studio.left(chunk).front().first);
  CHECK(wire::count_of(studio.left(chunk)) > before);
}

TEST_CASE("chunk extension: nobody gets more while all are waited for") {
  Studio studio(240);
  const JobId chunk = studio.running().front();
  const std::int64_t before = wire::count_of(studio.left(chunk));
  const PartyId other = studio.create(PartyKind::kTenant, kPlatform, "other");
  const PartyId ben = studio.user(other, "ben");
  const JobId waits = studio.submit(ben, gpus(2));
  studio.schedule();
  studio.verdict(chunk, studio.left(chunk).front().first);
  CHECK(wire::count_of(studio.left(chunk)) == before - 1);
  REQUIRE(studio.run(StopJob{waits}, ben));
  studio.schedule();
  studio.verdict(chunk, studio.left(chunk).front().first);
  CHECK(wire::count_of(studio.left(chunk)) > before);
}

TEST_CASE("chunk extension: what came too late for a loop goes to another, and costs no try") {
  for (const std::int32_t code : {0, 1}) {
    Studio studio(240);
    const JobId chunk = studio.running().front();
    const UnitSet first = studio.left(chunk);
    for (const UnitRange& range : first)
      for (std::int64_t unit = range.first; unit <= range.last; ++unit)
        studio.verdict(chunk, unit, code == 0 || unit != range.first);
    REQUIRE_FALSE(studio.left(chunk).empty());  // Added meanwhile.
    studio.end(chunk, code);
    studio.check_all_there();
    CHECK(studio.group().failures.size() == static_cast<std::size_t>(code));
    CHECK(studio.group().done == wire::count_of(first) - code);
  }
}

TEST_CASE("chunk extension: one that dies blames the frame it was at") {
  Studio studio(240);
  const JobId chunk = studio.running().front();
  const std::int64_t first = studio.left(chunk).front().first;
  studio.verdict(chunk, first);
  REQUIRE(wire::count_of(studio.group().chunk_of(chunk)->added) > 0);
  studio.end(chunk, 137);
  REQUIRE(studio.group().failures.size() == 1);
  CHECK(studio.group().failures.front().unit == first + 1);
  CHECK(studio.group().failures.front().tries == 1);
  studio.check_all_there();
}

TEST_CASE("chunk extension: chunks of a fixed size stay as they are") {
  Studio studio(8);
  JobGroup fixed = studio.group();
  fixed.chunk = 4;
  fixed.done = 1;
  CHECK(next_extension(studio.state, fixed, studio.clock).empty());
}

}  // namespace
}  // namespace tranche::engine
