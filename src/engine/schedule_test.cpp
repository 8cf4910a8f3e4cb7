// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

struct Office : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");

  void guarantee(PartyId tenant, std::int64_t milli) {
    Quota quota;
    quota.gpu_milli.guaranteed = milli;
    REQUIRE(limit(tenant, quota).has_value());
  }
  void agree_to_share(PartyId tenant) {
    Quota quota;
    quota.share_soft = true;
    REQUIRE(limit(tenant, quota).has_value());
  }
  const Job& job(JobId id) { return state.jobs.at(id); }
  LeaseId lease_of(JobId id) { return job(id).leases.front(); }
  void finish(JobId id, std::int32_t code = 0) {
    const auto leases = job(id).leases;
    for (const LeaseId lease : leases) {
      if (!state.leases.at(lease).live()) continue;
      REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited, code).has_value());
      REQUIRE(scrub(lease).has_value());
    }
  }
};

// Recounts every device from the leases alone: the fleet that placed them is not asked.
void check_nothing_oversold(const State& state) {
  std::map<DeviceId, std::int64_t> milli;
  std::map<DeviceId, std::int64_t> vram;
  std::map<DeviceId, std::set<std::uint32_t>> groups;
  for (const auto& [id, lease] : state.leases) {
    if (!lease.holds_slices()) continue;
    for (const Slice& slice : lease.slices) {
      milli[slice.device] += slice.milli;
      vram[slice.device] += slice.vram;
      groups[slice.device].insert(lease.trust_group);
    }
  }
  for (const auto& [device, sum] : milli) {
    CHECK(sum <= 1000);
    CHECK(vram[device] <= state.devices.at(device).facts.vram.count);
    CHECK(groups[device].size() == 1);
  }
}

// 80 GB are no whole number of MiB: whoever rounds a share loses the last one.
TEST_CASE("schedule: shares of a device add up to all of it, to the byte") {
  struct Share {
    std::uint32_t milli;
    std::int64_t vram;
    std::size_t fit;
  };
  for (const Share& share : {Share{500, 40'000'000'000, 2},
                             Share{125, 10'000'000'000, 8},
                             Share{1, 1'000'000'000, 80},
                             Share{333, 26'640'000'000, 3},
                             Share{100, 26'666'666'667, 2}}) {
    Office world;
    world.node("a", 1);
    Ask ask = gpus(1, share.milli);
    ask.isolation = Isolation::kSoft;
    ask.vram_each = share.vram;
    ask.cpu_milli = 100;
    for (std::size_t i = 0; i <= share.fit; ++i) world.submit(world.ana, ask);
    CAPTURE(share.vram);
    CHECK(world.schedule() == share.fit);
    check_nothing_oversold(world.state);
    for (const auto& [id, lease] : world.state.leases) CHECK(lease.slices.front().vram == share.vram);
  }
}

TEST_CASE("schedule: a job waits without capacity, and starts when a node joins") {
  Office world;
  const JobId id = world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
  world.node("a", 2);
  CHECK(world.schedule() == 1);
  CHECK(world.job(id).state == JobState::kStarting);
  REQUIRE(world.report(world.lease_of(id), LeaseState::kRunning).has_value());
  CHECK(world.job(id).state == JobState::kRunning);
  world.finish(id);
  CHECK(world.job(id).state == JobState::kSucceeded);
}

TEST_CASE("schedule: a slice is not given to the next before its wipe was proven") {
  Office world;
  world.node("a", 1);
  const JobId first = world.submit(world.ana, gpus(1));
  const JobId second = world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 1);
  const LeaseId lease = world.lease_of(first);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  CHECK(world.schedule() == 0);
  wire::Receipts dirty;
  dirty.scrubs.push_back({.lease = lease, .nonzero_bytes = 1});
  REQUIRE(world.run(KeepReceipts{.node = world.state.leases.at(lease).node, .receipts = dirty}).has_value());
  CHECK(world.schedule() == 0);
  REQUIRE(world.scrub(lease).has_value());
  CHECK(world.schedule() == 1);
  CHECK(world.job(second).state == JobState::kStarting);
}

TEST_CASE("schedule: tenants meet on a device only when both agreed") {
  Office world;
  world.node("a", 1);
  const JobId ana = world.submit(world.ana, gpus(1, 300));
  const JobId bo = world.submit(world.bo, gpus(1, 300));
  CHECK(world.schedule() == 1);
  world.finish(ana);
  world.schedule();
  world.finish(bo);
  world.agree_to_share(world.acme);
  world.agree_to_share(world.globex);
  world.submit(world.ana, gpus(1, 300));
  world.submit(world.bo, gpus(1, 300));
  CHECK(world.schedule() == 2);
  check_nothing_oversold(world.state);
}

TEST_CASE("schedule: simulated capacity is for those who ask for it, and for nothing else") {
  Office world;
  world.node("sim-a", 8);
  const auto refused = world.run(SubmitJob{.ask = gpus(1), .spec = "{}"}, world.ana);
  REQUIRE(!refused);
  CHECK(refused.error().rule == "capacity");
  Ask waits = gpus(1);
  waits.may_burst = true;
  const JobId real = world.submit(world.ana, waits);
  Ask ask = gpus(1);
  ask.simulated = true;
  const JobId simulated = world.submit(world.ana, ask);
  CHECK(world.schedule() == 1);
  CHECK(world.job(real).state == JobState::kPending);
  CHECK(world.job(simulated).state == JobState::kStarting);
}

TEST_CASE("schedule: a gang starts whole or not at all, and falls together") {
  Office world;
  world.node("a", 2);
  Ask gang = gpus(4);
  gang.nodes = 2;
  gang.may_burst = true;  // One of its nodes is yet to come.
  const JobId id = world.submit(world.ana, gang);
  CHECK(world.schedule() == 0);
  world.node("b", 2);
  CHECK(world.schedule() == 2);
  const auto leases = world.job(id).leases;
  REQUIRE(leases.size() == 2);
  CHECK(world.state.leases.at(leases[0]).node != world.state.leases.at(leases[1]).node);
  REQUIRE(world.report(leases[1], LeaseState::kEnded, EndReason::kExited, 3).has_value());
  CHECK(world.state.leases.at(leases[0]).revoked);
  CHECK_FALSE(is_over(world.job(id).state));
  REQUIRE(world.report(leases[0], LeaseState::kEnded, EndReason::kExited, 0).has_value());
  CHECK(world.job(id).state == JobState::kFailed);
  CHECK(world.job(id).exit_code == 3);
}

TEST_CASE("schedule: what was lent comes back when its owner asks, by checkpoint and requeue") {
  Office world;
  world.node("a", 2);
  world.guarantee(world.acme, 2000);
  const JobId lent = world.submit(world.bo, gpus(1));
  const JobId lent_too = world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 2);
  world.clock += 1h;
  const JobId owner = world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
  const bool first = world.state.leases.at(world.lease_of(lent)).revoked;
  const bool second = world.state.leases.at(world.lease_of(lent_too)).revoked;
  CHECK(first != second);
  const JobId victim = first ? lent : lent_too;
  const LeaseId lease = world.lease_of(victim);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143).has_value());
  CHECK(world.job(victim).state == JobState::kPending);
  CHECK(world.job(victim).reason == EndReason::kPreempted);
  const JobId quick = world.submit(world.bo, gpus(1));
  REQUIRE(world.scrub(lease).has_value());
  CHECK(world.schedule() == 1);
  CHECK(world.job(owner).state == JobState::kStarting);
  CHECK(world.job(quick).state == JobState::kPending);
}

// Else it would be given away, and taken back at once.
TEST_CASE("schedule: what is due by a guarantee goes before what would only be lent") {
  Office world;
  world.node("a", 2);
  world.guarantee(world.acme, 1000);
  world.guarantee(world.globex, 1000);
  const JobId before = world.submit(world.ana, gpus(1));
  REQUIRE(world.schedule() == 1);
  world.clock += 1h;
  world.finish(before);  // So that bo, who had less, is the first within a priority.
  const JobId due = world.submit(world.bo, gpus(1)), beyond = world.submit(world.bo, gpus(1));
  const JobId own = world.submit(world.ana, gpus(1));
  const Actor reader = *actor_of(world.state, world.envelope(world.bo));
  CHECK(explain(world.state, reader, world.job(beyond)).ahead_count == 2);
  CHECK(explain(world.state, reader, world.job(own)).ahead_count == 1);
  CHECK(world.schedule() == 2);
  CHECK(world.job(due).state == JobState::kStarting);
  CHECK(world.job(beyond).state == JobState::kPending);
  CHECK(world.job(own).state == JobState::kStarting);
}

TEST_CASE("schedule: nobody is reclaimed from below his own guarantee") {
  Office world;
  world.node("a", 2);
  world.guarantee(world.acme, 1000);
  world.guarantee(world.globex, 1000);
  world.submit(world.bo, gpus(1));
  const JobId borrowed = world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 2);
  world.submit(world.ana, gpus(1));
  world.schedule();
  int revoked = 0;
  for (const auto& [id, lease] : world.state.leases) revoked += lease.revoked;
  CHECK(revoked == 1);
  world.submit(world.ana, gpus(1));
  world.schedule();
  revoked = 0;
  for (const auto& [id, lease] : world.state.leases) revoked += lease.revoked;
  CHECK(revoked == 1);
  static_cast<void>(borrowed);
}

TEST_CASE("schedule: two that were lent are not both taken where one of them is their tenant's own") {
  Office world;
  world.node("a", 2);
  world.guarantee(world.acme, 2000);
  world.guarantee(world.globex, 1000);
  world.submit(world.bo, gpus(1));
  world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 2);
  world.submit(world.ana, gpus(2));
  world.schedule();
  for (const auto& [id, lease] : world.state.leases) CHECK_FALSE(lease.revoked);
}

TEST_CASE("schedule: who has no right to what was lent does not keep its owner from asking") {
  Office world;
  world.node("a", 2);
  world.guarantee(world.acme, 2000);
  const PartyId initech = world.create(PartyKind::kTenant, kPlatform, "initech");
  const PartyId cy = world.user(initech, "cy");
  world.submit(world.bo, gpus(1));
  world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 2);
  world.clock += 1h;
  world.submit(cy, gpus(1));  // Goes first: submitted first, and neither tenant has had anything.
  world.schedule();
  const JobId owner = world.submit(world.ana, gpus(1));
  world.schedule();
  const auto revoked = std::find_if(world.state.leases.begin(),
                                    world.state.leases.end(),
                                    [](const auto& one) { return one.second.revoked; });
  REQUIRE(revoked != world.state.leases.end());
  CHECK(revoked->second.promised_to == owner);
}

TEST_CASE("schedule: an owner gets all of its guarantee back at once, for as many jobs, and no more") {
  Office world;
  world.node("a", 4);
  world.guarantee(world.acme, 2000);
  for (int i = 0; i < 4; ++i) world.submit(world.bo, gpus(1));
  CHECK(world.schedule() == 4);
  world.clock += 1h;
  for (int i = 0; i < 4; ++i) world.submit(world.ana, gpus(1));
  world.schedule();
  const auto revoked = std::count_if(world.state.leases.begin(),
                                     world.state.leases.end(),
                                     [](const auto& one) { return one.second.revoked; });
  CHECK(revoked == 2);
}

struct GangOffice : Office {
  static Ask gang_of(std::uint32_t members) {
    Ask gang = gpus(2 * members);
    gang.nodes = members;
    return gang;
  }
  std::size_t revoked() const {
    return static_cast<std::size_t>(std::count_if(
        state.leases.begin(), state.leases.end(), [](const auto& one) { return one.second.revoked; }));
  }
  void leave(LeaseId id) {
    REQUIRE(report(id, LeaseState::kEnded, EndReason::kExited, 143).has_value());
    REQUIRE(scrub(id).has_value());
  }
};

TEST_CASE("schedule: a gang within its guarantee takes back the nodes that it lacks, and keeps the others") {
  GangOffice world;
  for (const char* name : {"a", "b", "c"}) world.node(name, 2);
  world.guarantee(world.acme, 6000);
  const JobId first = world.submit(world.bo, gpus(2));
  const JobId second = world.submit(world.bo, gpus(2));
  CHECK(world.schedule() == 2);
  world.clock += 1h;
  const JobId gang = world.submit(world.ana, GangOffice::gang_of(3));
  CHECK(world.schedule() == 0);
  REQUIRE(world.revoked() == 2);
  // One node is idle from the beginning, another is free first: nobody else gets them meanwhile.
  const JobId eager = world.submit(world.bo, gpus(2));
  CHECK(world.schedule() == 0);
  world.leave(world.lease_of(first));
  CHECK(world.schedule() == 0);
  CHECK(world.job(eager).state == JobState::kPending);
  world.leave(world.lease_of(second));
  CHECK(world.schedule() == 3);
  CHECK(world.job(gang).state == JobState::kStarting);
  CHECK(world.job(eager).state == JobState::kPending);
}

TEST_CASE("schedule: a gang takes no more back than was lent, and nothing when that is not enough") {
  GangOffice world;
  for (const char* name : {"a", "b"}) world.node(name, 2);
  world.guarantee(world.acme, 4000);
  world.guarantee(world.globex, 2000);
  world.submit(world.bo, gpus(2));
  world.submit(world.bo, gpus(2));
  CHECK(world.schedule() == 2);
  world.clock += 1h;
  world.submit(world.ana, GangOffice::gang_of(2));
  world.schedule();
  CHECK(world.revoked() == 0);
}

TEST_CASE("schedule: a gang that was lent several nodes is told once, and gives all of them") {
  GangOffice world;
  for (const char* name : {"a", "b"}) world.node(name, 2);
  world.guarantee(world.acme, 4000);
  const JobId lent = world.submit(world.bo, GangOffice::gang_of(2));
  CHECK(world.schedule() == 2);
  world.clock += 1h;
  const JobId gang = world.submit(world.ana, GangOffice::gang_of(2));
  CHECK(world.schedule() == 0);
  CHECK(world.revoked() == 2);
  const auto leases = world.job(lent).leases;
  for (const LeaseId id : leases)
    REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited, 143).has_value());
  for (const LeaseId id : leases) REQUIRE(world.scrub(id).has_value());
  CHECK(world.schedule() == 2);
  CHECK(world.job(gang).state == JobState::kStarting);
  CHECK(world.job(lent).state == JobState::kPending);
}

TEST_CASE("schedule: a large job is not starved by small ones that outlast its turn") {
  Office world;
  world.node("a", 4);
  Ask hour = gpus(1);
  hour.time = 1h;
  for (int i = 0; i < 4; ++i) world.submit(world.ana, hour);
  CHECK(world.schedule() == 4);
  const JobId large = world.submit(world.ana, gpus(4));
  Ask longer = gpus(1);
  longer.time = 5h;
  const JobId late = world.submit(world.ana, longer);
  Ask brief = gpus(1);
  brief.time = 10min;
  const JobId filler = world.submit(world.ana, brief);
  world.clock += 10min;
  world.finish({1});
  world.schedule();
  CHECK(world.job(large).state == JobState::kPending);
  CHECK(world.job(late).state == JobState::kPending);
  CHECK(world.job(filler).state == JobState::kStarting);
}

TEST_CASE("schedule: a lost node's work goes on elsewhere, and its late word is refused") {
  Office world;
  const NodeId a = world.node("a", 1);
  const JobId id = world.submit(world.ana, gpus(1));
  world.schedule();
  const LeaseId lease = world.lease_of(id);
  REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
  REQUIRE(world.run(LoseNode{a, "silent for 45 s"}).has_value());
  CHECK(world.job(id).state == JobState::kPending);
  CHECK_FALSE(world.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  world.node("b", 1);
  CHECK(world.schedule() == 0);  // Not before the backoff is over.
  world.clock += 1min;
  CHECK(world.schedule() == 1);
  CHECK(world.job(id).attempts == 2);
  CHECK(world.state.leases.at(world.lease_of(id)).epoch > world.state.leases.at(lease).epoch);
}

TEST_CASE("schedule: work on a node that takes no more is read back from a snapshot") {
  Office world;
  const NodeId a = world.node("a", 1);
  const JobId id = world.submit(world.ana, gpus(1, 500));
  world.schedule();
  const LeaseId lease = world.lease_of(id);
  REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
  SUBCASE("cordoned") {
    REQUIRE(world.run(ChangeNode{.id = a, .cordoned = true}, world.root));
  }
  SUBCASE("lost") {
    REQUIRE(world.run(LoseNode{a, "silent for 45 s"}));
  }
  REQUIRE(world.state.leases.at(lease).holds_slices());
  const auto again = decode_state(encode_state(world.state));
  REQUIRE(again.has_value());
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
}

// Whole devices that nobody has wiped yet; whether there were any.
bool wipe_all(World& world, NodeId node) {
  const auto answered = world.accept(node);
  return answered && !answered->empty();
}

TEST_CASE(
    "schedule: any journal of any day leaves no device oversold and nobody waiting beside an idle fleet") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Office world;
    world.guarantee(world.acme, 4000);
    if (seed % 2 == 0) world.agree_to_share(world.globex);
    for (int i = 0; i < 3; ++i) world.node("n" + std::to_string(i), 2 + static_cast<std::uint32_t>(i));
    for (int step = 0; step < 200; ++step) {
      world.clock += std::chrono::seconds(random.below(900));
      const PartyId who = random.below(2) == 0 ? world.ana : world.bo;
      Ask ask = gpus(1 + static_cast<std::uint32_t>(random.below(2)),
                     100 + 100 * static_cast<std::uint32_t>(random.below(10)));
      ask.vram_each = static_cast<std::int64_t>(1 + random.below(60)) * 1'000'000'000;
      ask.preemptible = random.below(3) == 0;
      ask.priority = static_cast<std::uint8_t>(random.below(100));
      if (random.below(2) == 0) ask.time = std::chrono::minutes(1 + random.below(600));
      if (ask.milli_each == 1000) ask.isolation = Isolation::kDedicated;
      world.submit(who, ask);
      world.schedule();
      check_nothing_oversold(world.state);
      std::vector<LeaseId> live;
      for (const auto& [id, lease] : world.state.leases)
        if (lease.live()) live.push_back(id);
      for (const LeaseId id : live) {
        if (random.below(4) != 0) continue;
        const bool fault = random.below(8) == 0;
        REQUIRE(world.report(id, LeaseState::kEnded, fault ? EndReason::kDeviceFault : EndReason::kExited)
                    .has_value());
        if (random.below(10) != 0) REQUIRE(world.scrub(id).has_value());
      }
      world.schedule();
      check_nothing_oversold(world.state);
      if (step % 50 != 0) continue;
      const auto again = decode_state(encode_state(world.state));
      REQUIRE(again);
      CHECK(again->index.capacity->fleet().allocated_milli() ==
            world.state.index.capacity->fleet().allocated_milli());
    }
    // Everybody leaves; whoever waits must get his turn, and whom the platform failed too often another.
    std::vector<JobId> failed;
    for (const auto& [id, job] : world.state.jobs)
      if (job.state == JobState::kHeld) failed.push_back(id);
    for (const JobId id : failed) REQUIRE(world.run(ReleaseJob{id}, world.root).has_value());
    for (int round = 0; round < 2000; ++round) {
      world.clock += 11min;
      world.schedule();
      bool any = false;
      std::vector<LeaseId> held;
      for (const auto& [id, lease] : world.state.leases)
        if (lease.holds_slices()) held.push_back(id);
      for (const LeaseId id : held) {
        any = true;
        if (world.state.leases.at(id).live())
          REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited).has_value());
        REQUIRE(world.scrub(id).has_value());
      }
      for (const auto& [id, node] : world.state.nodes) any = wipe_all(world, id) || any;
      if (!any) break;
    }
    for (const auto& [id, job] : world.state.jobs) CHECK(is_over(job.state));
  }
}

}  // namespace
}  // namespace tranche::engine
