// SPDX-License-Identifier: Apache-2.0
// Who is stopped for the owner of what was lent: enough, no more than was lent, and nobody for nothing.
#include <algorithm>
#include <array>
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

// Ana asks for what is hers; bo has borrowed it; cy has no more than his own.
struct Lenders : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId initech = create(PartyKind::kTenant, kPlatform, "initech");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");
  PartyId cy = user(initech, "cy");

  void guarantee(PartyId tenant, std::int64_t devices) {
    Quota quota;
    quota.gpu_milli.guaranteed = devices * 1000;
    REQUIRE(limit(tenant, quota).has_value());
  }
  static Ask gang(std::uint32_t members, std::uint32_t devices) {
    Ask ask = gpus(members * devices);
    ask.nodes = members;
    return ask;
  }
  JobId begin(PartyId person, const Ask& ask) {
    const JobId id = submit(person, ask);
    REQUIRE(schedule() == std::max(ask.nodes, 1U));
    return id;
  }
  const std::vector<LeaseId>& leases(JobId id) const { return state.jobs.at(id).leases; }
  bool is_stopped(JobId id) const {
    return std::any_of(
        leases(id).begin(), leases(id).end(), [&](LeaseId one) { return state.leases.at(one).revoked; });
  }
  bool is_for(JobId stopped, JobId owner) const {
    return is_stopped(stopped) && state.leases.at(leases(stopped).front()).promised_to == owner;
  }
  // Its node does what it was asked: a smaller or larger slice, off its devices, or back.
  void obey(LeaseId id) {
    const Lease& lease = state.leases.at(id);
    wire::LeaseReport said{.lease = id, .epoch = lease.epoch, .state = lease.state, .at = clock};
    if (lease.parking == Parking::kAsked) said.state = LeaseState::kPaused;
    if (lease.parking == Parking::kReturning) said.state = LeaseState::kRunning;
    if (lease.change) {
      said.milli = lease.change->milli;
      said.vram = Bytes{lease.change->vram};
    }
    if (said.milli || said.state != lease.state)
      REQUIRE(run(ReportLease{.node = lease.node, .report = said}).has_value());
  }
  bool waits(JobId id) const { return state.jobs.at(id).state == JobState::kPending; }
};

TEST_CASE("reclaim: who is enough alone is asked, where a cheaper one would use up what was lent") {
  Lenders world;
  world.node("a", 3);
  world.guarantee(world.acme, 2);
  world.guarantee(world.globex, 1);
  const JobId small = world.begin(world.bo, gpus(1));
  const JobId large = world.begin(world.bo, gpus(2));
  world.clock += 1h;
  const JobId owner = world.submit(world.ana, gpus(2));
  world.schedule();
  CHECK_FALSE(world.is_stopped(small));
  CHECK(world.is_for(large, owner));
}

TEST_CASE("reclaim: a gang leaves the node that would use up what was lent on the others") {
  Lenders world;
  world.guarantee(world.acme, 4);
  world.guarantee(world.globex, 4);
  world.guarantee(world.initech, 4);
  std::vector<JobId> lent;
  for (const char* name : {"b", "c"}) {
    world.node(name, 4);
    world.begin(world.cy, gpus(2));
    lent.push_back(world.begin(world.bo, gpus(2)));
  }
  world.clock += 10h;
  world.node("a", 4);
  const JobId cheap = world.begin(world.bo, gpus(4));
  world.clock += 1h;
  const JobId owner = world.submit(world.ana, Lenders::gang(2, 2));
  world.schedule();
  CHECK_FALSE(world.is_stopped(cheap));
  for (const JobId id : lent) CHECK(world.is_for(id, owner));
}

TEST_CASE("reclaim: what is leaving already is no longer there to be taken") {
  Lenders world;
  for (const char* name : {"a", "b"}) world.node(name, 8);
  world.guarantee(world.acme, 16);
  world.guarantee(world.globex, 8);
  const JobId first = world.begin(world.bo, gpus(8));
  const JobId second = world.begin(world.bo, gpus(8));
  world.clock += 1h;
  for (int i = 0; i < 2; ++i) world.submit(world.ana, gpus(8));
  world.schedule();
  CHECK(world.is_stopped(first) != world.is_stopped(second));
}

TEST_CASE("reclaim: what is freed for one job is enough for the next of its owner, if it fits beside it") {
  Lenders world;
  for (const char* name : {"a", "b"}) world.node(name, 8);
  world.guarantee(world.acme, 9);
  const JobId first = world.begin(world.bo, gpus(8));
  const JobId second = world.begin(world.bo, gpus(8));
  world.clock += 1h;
  std::vector<JobId> owners{world.submit(world.ana, gpus(1))};
  const auto stopped = [&] { return int{world.is_stopped(first)} + int{world.is_stopped(second)}; };
  SUBCASE("of one kind") {
    owners.push_back(world.submit(world.ana, gpus(1)));
  }
  SUBCASE("that asks later, and for more") {
    world.schedule();
    owners.push_back(world.submit(world.ana, gpus(7)));
  }
  world.schedule();
  REQUIRE(stopped() == 1);
  const LeaseId leaves = world.leases(world.is_stopped(first) ? first : second).front();
  REQUIRE(world.report(leaves, LeaseState::kEnded, EndReason::kExited, 143).has_value());
  world.schedule();
  CHECK(stopped() == 1);  // It is being wiped.
  REQUIRE(world.scrub(leaves).has_value());
  CHECK(world.schedule() == 2);
  for (const JobId id : owners) CHECK_FALSE(world.waits(id));
  CHECK(stopped() == 1);
}

TEST_CASE("reclaim: what is freed for two of an owner is for both, whoever else waits") {
  Lenders world;
  for (const char* name : {"a", "b"}) world.node(name, 8);
  world.guarantee(world.acme, 8);
  world.guarantee(world.initech, 8);
  const LeaseId had = world.leases(world.begin(world.ana, gpus(1))).front();
  world.clock += 1h;
  REQUIRE(world.report(had, LeaseState::kEnded, EndReason::kExited).has_value());
  REQUIRE(world.scrub(had).has_value());
  const JobId first = world.begin(world.bo, gpus(8));
  const JobId second = world.begin(world.bo, gpus(8));
  world.clock += 1h;
  const JobId one = world.submit(world.ana, gpus(1));
  const JobId seven = world.submit(world.ana, gpus(7));
  world.schedule();
  REQUIRE(world.is_stopped(first) != world.is_stopped(second));
  const LeaseId leaves = world.leases(world.is_stopped(first) ? first : second).front();
  REQUIRE(world.report(leaves, LeaseState::kEnded, EndReason::kExited, 143).has_value());
  world.schedule();
  REQUIRE(world.scrub(leaves).has_value());
  const JobId other = world.submit(world.cy, gpus(7));  // By right, too, and had less.
  CHECK(world.schedule() == 2);
  CHECK_FALSE(world.waits(one));
  CHECK_FALSE(world.waits(seven));
  CHECK(world.waits(other));
}

TEST_CASE("reclaim: what is free beside one who leaves for another is no longer free") {
  Lenders world;
  world.node("a", 4);
  world.guarantee(world.acme, 2);
  world.guarantee(world.initech, 2);
  std::vector<JobId> lent;
  for (int i = 0; i < 3; ++i) lent.push_back(world.begin(world.bo, gpus(1)));
  world.clock += 1h;
  const JobId one = world.submit(world.ana, gpus(2));
  const auto stopped = [&] {
    return std::count_if(lent.begin(), lent.end(), [&](JobId id) { return world.is_stopped(id); });
  };
  world.schedule();
  REQUIRE(stopped() == 1);
  const JobId other = world.submit(world.cy, gpus(2));
  world.schedule();
  CHECK(stopped() == 3);
  for (const JobId id : lent) {
    const LeaseId leaves = world.leases(id).front();
    REQUIRE(world.report(leaves, LeaseState::kEnded, EndReason::kExited, 143).has_value());
    REQUIRE(world.scrub(leaves).has_value());
  }
  world.schedule();
  CHECK_FALSE(world.waits(one));
  CHECK_FALSE(world.waits(other));
}

TEST_CASE("reclaim: an owner is heard at once, also while others of his wait for what is being freed") {
  Lenders world;
  for (const char* name : {"a", "b", "c", "d"}) world.node(name, 1);
  world.guarantee(world.acme, 4);
  std::vector<JobId> lent;
  for (int i = 0; i < 4; ++i) lent.push_back(world.begin(world.bo, gpus(1)));
  world.clock += 1h;
  const JobId first = world.submit(world.ana, gpus(1));
  for (int i = 0; i < 2; ++i) world.submit(world.ana, gpus(1));
  world.schedule();
  const auto stopped = [&] {
    return std::count_if(lent.begin(), lent.end(), [&](JobId id) { return world.is_stopped(id); });
  };
  REQUIRE(stopped() == 3);
  const auto left = std::find_if(lent.begin(), lent.end(), [&](JobId id) { return world.is_for(id, first); });
  const LeaseId leaves = world.leases(*left).front();
  REQUIRE(world.report(leaves, LeaseState::kEnded, EndReason::kExited, 143).has_value());
  REQUIRE(world.scrub(leaves).has_value());
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 1);
  CHECK_FALSE(world.waits(first));
  CHECK(stopped() == 4);
}

TEST_CASE("reclaim: what does not fit beside it is freed elsewhere at once") {
  Lenders world;
  for (const char* name : {"a", "b"}) world.node(name, 8);
  world.guarantee(world.acme, 9);
  const JobId first = world.begin(world.bo, gpus(8));
  const JobId second = world.begin(world.bo, gpus(8));
  world.clock += 1h;
  const JobId one = world.submit(world.ana, gpus(1));
  const JobId eight = world.submit(world.ana, gpus(8));
  world.schedule();
  CHECK(world.is_for(first, one) != world.is_for(second, one));
  CHECK(world.is_for(first, eight) != world.is_for(second, eight));
}

TEST_CASE("reclaim: a gang is judged by all that stops with it") {
  Lenders world;
  for (const char* name : {"a", "b"}) world.node(name, 4);
  world.guarantee(world.acme, 4);
  world.guarantee(world.globex, 4);
  SUBCASE("and keeps what is its tenant's own") {
    const JobId gang = world.begin(world.bo, Lenders::gang(2, 4));
    world.clock += 1h;
    world.submit(world.ana, gpus(4));
    world.schedule();
    CHECK_FALSE(world.is_stopped(gang));
  }
  SUBCASE("so that a dearer one is stopped in its place") {
    world.guarantee(world.globex, 8);
    const JobId single = world.begin(world.bo, gpus(4));
    world.node("c", 4);
    world.clock += 10h;
    const JobId gang = world.begin(world.bo, Lenders::gang(2, 4));
    world.clock += 1h;
    const JobId owner = world.submit(world.ana, gpus(4));
    world.schedule();
    CHECK_FALSE(world.is_stopped(gang));
    CHECK(world.is_for(single, owner));
  }
}

TEST_CASE("reclaim: members that an elastic gang may lose are counted once for all nodes of a claim") {
  Lenders world;
  for (const char* name : {"a", "b", "c"}) world.node(name, 1);
  world.guarantee(world.acme, 2);
  world.guarantee(world.globex, 1);
  Ask ask = Lenders::gang(2, 1);
  ask.nodes_min = 2;
  ask.nodes_max = 3;
  const JobId elastic = world.submit(world.bo, ask);
  REQUIRE(world.schedule() == 3);
  world.clock += 1h;
  world.submit(world.ana, Lenders::gang(2, 1));
  world.schedule();
  CHECK_FALSE(world.is_stopped(elastic));  // Less than two cannot go on, and one is its tenant's own.
}

TEST_CASE("reclaim: two owners who ask in one pass do not stop the same lease") {
  Lenders world;
  world.node("a", 2);
  world.guarantee(world.acme, 1);
  world.guarantee(world.initech, 1);
  for (int i = 0; i < 2; ++i) world.begin(world.bo, gpus(1));
  world.clock += 1h;
  world.submit(world.ana, gpus(1));
  world.submit(world.cy, gpus(1));
  const Decision decided = world.run(Schedule{});
  REQUIRE(decided.has_value());
  std::vector<LeaseId> told;
  for (const Event& event : *decided)
    if (const auto* revoked = std::get_if<LeaseRevoked>(&event)) told.push_back(revoked->id);
  REQUIRE(told.size() == 2);
  CHECK(told[0] != told[1]);
}

TEST_CASE("reclaim: a claim in vain keeps nobody with more right, or less need, from asking") {
  Lenders world;
  SUBCASE("priority") {
    world.node("a", 1);
    const auto of_priority = [](std::uint8_t priority) {
      Ask ask = gpus(1);
      ask.priority = priority;
      return ask;
    };
    Ask guest = of_priority(50);
    guest.preemptible = true;
    const JobId lent = world.begin(world.bo, guest);
    world.submit(world.ana, of_priority(10));
    world.clock += kAgedAfter;  // So it goes first.
    const JobId urgent = world.submit(world.cy, of_priority(90));
    world.schedule();
    CHECK(world.is_for(lent, urgent));
  }
  SUBCASE("size") {
    for (const char* name : {"a", "b"}) world.node(name, 2);
    world.guarantee(world.acme, 4);
    world.guarantee(world.globex, 2);
    const JobId first = world.begin(world.bo, gpus(2));
    const JobId second = world.begin(world.bo, gpus(2));
    world.clock += 1h;
    world.submit(world.ana, Lenders::gang(2, 2));
    const JobId single = world.submit(world.ana, gpus(2));
    world.schedule();
    CHECK(world.is_for(first, single) != world.is_for(second, single));
  }
}

// What a tenant keeps when all who were asked have left, by the leases alone.
std::int64_t kept_milli(const State& state, PartyId tenant) {
  std::int64_t milli = 0;
  for (const auto& [id, lease] : state.leases) {
    if (lease.tenant != tenant || !lease.live()) continue;
    const bool goes_on = lease.revoke_reason == EndReason::kResized && lease.promised_to == lease.job;
    const bool goes_off = lease.parking == Parking::kAsked || lease.parking == Parking::kParked;
    if (goes_off || (lease.revoked && !goes_on)) continue;
    for (const Slice& slice : lease.slices)
      milli += lease.change ? std::min(slice.milli, lease.change->milli) : slice.milli;
  }
  return milli;
}

Ask any_ask(Random& random) {
  Ask ask = gpus(1 + static_cast<std::uint32_t>(random.below(3)));
  const auto members = static_cast<std::uint32_t>(2 + random.below(2));
  switch (random.below(5)) {
    case 0:
      ask = gpus(1, 100 + 100 * static_cast<std::uint32_t>(random.below(9)));
      break;
    case 1:
      ask = gpus(1, 200);
      ask.range = wire::SliceRange{200, 800, ask.vram_each, 4 * ask.vram_each};
      break;
    case 2:
      ask = Lenders::gang(members, 1 + static_cast<std::uint32_t>(random.below(2)));
      break;
    case 3:
      ask = Lenders::gang(members, 1);
      ask.nodes_min = members;
      ask.nodes_max = members + 2;
      break;
    default:
      break;
  }
  ask.priority = static_cast<std::uint8_t>(40 + 10 * random.below(3));
  return ask;
}

TEST_CASE("reclaim: on no day is a tenant left with less than its own for the sake of another") {
  int taken = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Lenders world;
    for (int i = 0; i < 4; ++i) {
      wire::Hello said = World::hello("n" + std::to_string(i), 4, "H100-SXM5-80GB");
      said.features.resizes = said.features.parks = true;
      world.joined(said);
    }
    const std::map<PartyId, std::int64_t> own{{world.acme, 6}, {world.globex, 4}, {world.initech, 3}};
    for (const auto& [tenant, devices] : own) world.guarantee(tenant, devices);
    const std::array<PartyId, 3> people{world.ana, world.bo, world.cy};
    for (int step = 0; step < 150; ++step) {
      world.clock += std::chrono::seconds(random.below(600));
      // Each has its days, on which the others lend.
      const std::size_t who =
          random.below(3) == 0 ? random.below(3) : static_cast<std::size_t>(step / 15 % 3);
      world.submit(people[who], any_ask(random));
      for (int pass = 0; schedule_due(world.state, world.clock); ++pass) {
        REQUIRE(pass < 100);
        const Decision decided = world.run(Schedule{});
        REQUIRE(decided.has_value());
        std::set<LeaseId> told;
        for (const Event& event : *decided) {
          const auto* revoked = std::get_if<LeaseRevoked>(&event);
          if (revoked == nullptr) continue;
          CHECK(told.insert(revoked->id).second);
          const Job* owner = world.state.job(revoked->promised_to);
          const Lease& lease = world.state.leases.at(revoked->id);
          if (owner == nullptr || tenant_of(world.state, owner->owner) == lease.tenant) continue;
          ++taken;
          CHECK(kept_milli(world.state, lease.tenant) >= own.at(lease.tenant) * 1000);
        }
      }
      for (const auto& [id, lease] : std::map(world.state.leases)) {
        const Lease& now = world.state.leases.at(id);
        if (now.live()) world.obey(id);
        if (now.state == LeaseState::kGranted && random.below(2) == 0)
          REQUIRE(world.report(id, LeaseState::kRunning).has_value());
        if (now.live() && random.below(now.revoked ? 2 : 20) == 0)
          REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited).has_value());
        if (!now.live() && now.holds_slices() && random.below(2) == 0) REQUIRE(world.scrub(id).has_value());
      }
      for (const auto& [id, node] : std::map(world.state.nodes)) (void)world.accept(id);
    }
  }
  CHECK(taken > 50);
}

}  // namespace
}  // namespace tranche::engine
