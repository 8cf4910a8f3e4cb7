// SPDX-License-Identifier: Apache-2.0
#include "engine/moves.hpp"

#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

Ask half(bool preemptible) {
  Ask ask = gpus(1, 500);
  ask.preemptible = preemptible;
  return ask;
}

Ask whole(std::uint8_t priority = 50) {
  Ask ask = gpus(1);
  ask.priority = priority;
  return ask;
}

Ask gang(std::uint32_t members) {
  Ask ask = gpus(members);
  ask.nodes = members;
  return ask;
}

// Two devices, each half taken by a job of its own after a neighbour has left: enough is idle, nothing whole.
struct Halves : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId node_a = node("a", 2);
  std::vector<JobId> stay;

  explicit Halves(bool preemptible, std::uint8_t priority = 50) {
    std::map<DeviceId, std::vector<JobId>> by_device;
    for (int i = 0; i < 4; ++i) {
      Ask ask = half(preemptible);
      ask.priority = priority;
      const JobId job = submit(ana, ask);
      schedule();
      REQUIRE(report(lease_of(job), LeaseState::kRunning).has_value());
      by_device[state.leases.at(lease_of(job)).slices.front().device].push_back(job);
    }
    REQUIRE(by_device.size() == 2);
    for (const auto& [device, jobs] : by_device) {
      REQUIRE(jobs.size() == 2);
      stay.push_back(jobs[0]);
      end(jobs[1]);
    }
    clock += 1h;
  }
  LeaseId lease_of(JobId id) { return state.jobs.at(id).leases.front(); }
  void end(JobId id, EndReason reason = EndReason::kExited) {
    const LeaseId lease = lease_of(id);
    REQUIRE(report(lease, LeaseState::kEnded, reason).has_value());
    REQUIRE(scrub(lease).has_value());
  }
  std::vector<JobId> moving() {
    std::vector<JobId> jobs;
    for (const JobId id : stay)
      if (state.leases.at(lease_of(id)).revoked) jobs.push_back(id);
    return jobs;
  }
};

TEST_CASE("moves: a job that fits nowhere gets its place when another can go on elsewhere") {
  Halves world(true);
  const JobId job = world.submit(world.ana, whole());
  world.schedule();
  const auto moving = world.moving();
  REQUIRE(moving.size() == 1);
  CHECK(world.state.leases.at(world.lease_of(moving[0])).promised_to == job);
  world.end(moving[0], EndReason::kPreempted);  // It saved itself and left.
  world.schedule();
  CHECK(world.state.jobs.at(job).state == JobState::kStarting);
  CHECK(world.state.jobs.at(moving[0]).state == JobState::kStarting);  // On the other device.
  CHECK(world.state.jobs.at(moving[0]).reason == EndReason::kPreempted);
  world.clock += 1h;
  world.schedule();
  CHECK(world.moving().empty());
}

TEST_CASE("moves: nobody is moved who did not say so, is more urgent, or would find no place") {
  SUBCASE("not preemptible") {
    Halves world(false);
    world.submit(world.ana, whole());
    world.schedule();
    CHECK(world.moving().empty());
  }
  SUBCASE("more urgent") {
    Halves world(true, 80);
    world.submit(world.ana, whole(50));
    world.schedule();
    CHECK(world.moving().empty());
  }
  SUBCASE("no other place") {
    Halves world(true);
    const JobId filler = world.submit(world.ana, half(false));
    world.schedule();
    REQUIRE(world.state.jobs.at(filler).state == JobState::kStarting);
    world.submit(world.ana, whole());
    world.schedule();
    CHECK(world.moving().empty());
  }
}

TEST_CASE("moves: who has just been moved is left alone") {
  Halves world(true);
  world.submit(world.ana, whole());
  world.schedule();
  const JobId moved = world.moving().at(0);
  world.end(moved, EndReason::kPreempted);
  world.schedule();
  REQUIRE(world.report(world.lease_of(moved), LeaseState::kRunning).has_value());
  world.node("b", 1);
  const JobId filler = world.submit(world.ana, half(false));
  world.schedule();
  CHECK(world.state.jobs.at(filler).state == JobState::kStarting);
  world.submit(world.ana, whole());
  world.schedule();
  CHECK_FALSE(world.state.leases.at(world.lease_of(moved)).revoked);
}

TEST_CASE("fabric: a gang stays together where one fabric has room, and starts in any case") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  const auto on = [&](const std::string& name, const std::string& fabric) {
    const NodeId id = world.node(name, 1);
    REQUIRE(world.run(ChangeNode{.id = id, .labels = {{"fabric", fabric}}}, world.root).has_value());
    return id;
  };
  const std::set<NodeId> left{on("a", "left"), on("c", "left")};
  const std::set<NodeId> right{on("b", "right"), on("d", "right"), on("e", "right")};
  const auto nodes_of = [&](JobId id) {
    std::set<NodeId> nodes;
    for (const LeaseId lease : world.state.jobs.at(id).leases)
      nodes.insert(world.state.leases.at(lease).node);
    return nodes;
  };
  const JobId first = world.submit(ana, gang(2));
  world.schedule();
  CHECK(nodes_of(first) == left);  // The smaller one that will do.
  const JobId second = world.submit(ana, gang(3));
  world.schedule();
  CHECK(nodes_of(second) == right);
  const JobId third = world.submit(ana, gang(2));
  for (const JobId id : {first, second}) {
    const LeaseId lease = world.state.jobs.at(id).leases.front();
    REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
    REQUIRE(world.scrub(lease).has_value());
  }
  world.schedule();
  for (int i = 0; i < 3 && nodes_of(third).size() < 2; ++i) {
    for (const auto& [id, node] : world.state.nodes) (void)world.accept(id);
    world.schedule();
  }
  CHECK(nodes_of(third).size() == 2);  // One of each.
}

// A gang of two waits for a second device beside the one that is idle. A job that comes after it may not have
// that one, and gains nothing by having somebody else moved there.
TEST_CASE("moves: nobody is moved to what is kept for a gang") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  for (const char* name : {"a", "b", "c"}) world.node(name, 1);
  Ask movable = whole();
  movable.preemptible = true;
  movable.time = 3h;  // So it is known when the gang can start, and what is idle is kept until then.
  const std::vector<JobId> running{world.submit(ana, movable), world.submit(ana, movable)};
  REQUIRE(world.schedule() == 2);
  for (const JobId id : running)
    REQUIRE(world.report(world.state.jobs.at(id).leases.front(), LeaseState::kRunning).has_value());
  world.clock += 1h;
  const JobId pair = world.submit(ana, gang(2));
  CHECK(world.schedule() == 0);
  const JobId later = world.submit(ana, whole());
  for (int i = 0; i < 5; ++i) {
    CHECK(world.schedule() == 0);
    world.clock += 10min;
  }
  for (const JobId id : running)
    CHECK_FALSE(world.state.leases.at(world.state.jobs.at(id).leases.front()).revoked);
  CHECK(world.state.jobs.at(pair).state == JobState::kPending);
  CHECK(world.state.jobs.at(later).state == JobState::kPending);
}

}  // namespace
}  // namespace tranche::engine
