// SPDX-License-Identifier: Apache-2.0
// Volumes in a pool that several nodes mount, and what nodes say of encryption.
#include <doctest/doctest.h>

#include "engine/world.hpp"

namespace tranche::engine {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
using wire::VolumeBackend;
using wire::VolumeWork;

struct Pools : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId blue = create(PartyKind::kTenant, kPlatform, "blue");
  PartyId ana = user(acme, "ana");
  PartyId bob = user(blue, "bob");

  NodeId node_of(const std::string& name, const std::string& pool, bool encrypts = true) {
    const NodeId id = node(name, 1);
    say(name, pool, encrypts);
    return id;
  }
  void say(const std::string& name,
           const std::string& pool,
           bool encrypts = true,
           std::vector<VolumeId> plain = {}) {
    wire::Hello again = hello(name, 1, "H100-SXM5-80GB");
    again.features = {
        .encrypts_volumes = encrypts, .plain_volumes = std::move(plain), .shared_volumes = pool};
    TRANCHE_CHECK(run(ReportNode{state.index.nodes_by_name.at(name), again}).has_value());
  }
  Decision create_shared(PartyId who, const std::string& name, const std::string& pool = "") {
    return run(
        CreateVolume{.name = name, .bytes = kGigabyte, .backend = VolumeBackend::kShared, .pool = pool}, who);
  }
  VolumeId shared(const std::string& name, const std::string& pool = "") {
    const auto made = create_shared(ana, name, pool);
    TRANCHE_CHECK(made.has_value());
    return std::get<VolumeCreated>(made->front()).id;
  }
  Decision submit_with(PartyId who, std::vector<std::string> volumes, std::uint32_t nodes = 1) {
    Ask ask = gpus(1, 1000);
    ask.instances = nodes;
    ask.volumes = std::move(volumes);
    ask.nodes = nodes;
    return run(SubmitJob{.ask = std::move(ask), .spec = "{}"}, who);
  }
  JobId started(std::vector<std::string> volumes, std::uint32_t nodes = 1) {
    const auto made = submit_with(ana, std::move(volumes), nodes);
    TRANCHE_CHECK(made.has_value());
    schedule();
    return std::get<JobSubmitted>(made->front()).id;
  }
  NodeId place_of(JobId job, std::size_t member = 0) {
    return state.leases.at(state.jobs.at(job).leases.at(member)).node;
  }
  void end(JobId job) {
    for (const LeaseId lease : std::vector(state.jobs.at(job).leases)) {
      TRANCHE_CHECK(report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
      TRANCHE_CHECK(scrub(lease).has_value());
    }
  }
  Decision worked(VolumeId id, VolumeWork work, NodeId node) {
    return run(KeepVolumeReceipt{.node = node, .receipt = {.volume = id, .work = work, .done = true}});
  }
};

TEST_CASE("pool: a shared volume is had on every node that offers it, and on no other") {
  Pools world;
  const NodeId other = world.node_of("a", "");
  const NodeId first = world.node_of("b", "lake");
  const NodeId second = world.node_of("c", "lake");
  world.shared("data");
  const JobId one = world.started({"data"});
  const JobId two = world.started({"data"});
  const JobId three = world.started({"data"});
  CHECK(world.place_of(one) != world.place_of(two));
  for (const JobId job : {one, two}) CHECK((world.place_of(job) == first || world.place_of(job) == second));
  CHECK(world.state.jobs.at(three).state == JobState::kPending);  // Though a third node is free.
  CHECK(world.state.index.capacity->leases_on(other).empty());
  world.end(one);
  world.schedule();
  CHECK(world.state.jobs.at(three).state == JobState::kStarting);
}

TEST_CASE("pool: a gang over several nodes may have a shared volume, and none of one node") {
  Pools world;
  world.node_of("a", "lake");
  world.node_of("b", "lake");
  world.shared("data");
  REQUIRE(world.run(CreateVolume{.name = "local", .bytes = 1}, world.ana));
  CHECK(world.submit_with(world.ana, {"local"}, 2).error().rule == "volumes");
  CHECK(world.submit_with(world.ana, {"data", "local"}, 2).error().rule == "volumes");
  const JobId gang = world.started({"data"}, 2);
  REQUIRE(world.state.jobs.at(gang).leases.size() == 2);
  CHECK(world.place_of(gang, 0) != world.place_of(gang, 1));
}

TEST_CASE("pool: what nothing offers is refused with the reason") {
  Pools world;
  world.node_of("a", "");
  CHECK(world.create_shared(world.ana, "data").error().rule == "backend");
  world.node_of("b", "lake");
  world.node_of("c", "pond");
  CHECK(world.create_shared(world.ana, "data").error().rule == "pool");
  CHECK(world.create_shared(world.ana, "data", "sea").error().rule == "pool");
  world.shared("data", "lake");
  world.shared("more", "pond");
  CHECK(world.submit_with(world.ana, {"data", "more"}).error().rule == "volumes");
  CHECK_FALSE(world.run(CreateVolume{.name = "x",
                                     .bytes = 1,
                                     .node = world.state.index.nodes_by_name.at("b"),
                                     .backend = VolumeBackend::kShared,
                                     .pool = "lake"},
                        world.ana));
  CHECK(world.run(CreateVolume{.name = "x", .bytes = 1, .pool = "lake"}, world.ana).error().rule == "pool");
  world.say("b", "");  // Its agent was started without.
  const auto refused = world.submit_with(world.ana, {"data"});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("lake") != std::string::npos);
}

TEST_CASE("pool: nobody else names, removes or copies what is in it") {
  Pools world;
  world.node_of("a", "lake");
  const VolumeId ours = world.shared("data");
  CHECK_FALSE(world.submit_with(world.bob, {"data"}));
  CHECK(world.run(RemoveVolume{ours}, world.bob).error().reason == Reason::kNotFound);
  CHECK(world.run(SnapshotVolume{ours, "mine"}, world.bob).error().reason == Reason::kNotFound);
}

TEST_CASE("pool: any node of it may do its work, another does it when that one is lost, and no stranger") {
  Pools world;
  const NodeId stranger = world.node_of("a", "");
  const NodeId first = world.node_of("b", "lake");
  const NodeId second = world.node_of("c", "lake");
  const VolumeId data = world.shared("data");
  CHECK(world.run(SnapshotVolume{data, "copy"}, world.ana).error().rule == "empty");
  const JobId job = world.started({"data"});
  CHECK(world.run(SnapshotVolume{data, "copy"}, world.ana).error().rule == "in_use");
  world.end(job);
  const auto made = world.run(SnapshotVolume{data, "copy"}, world.ana);
  REQUIRE(made);
  const VolumeId copy = std::get<VolumeCreated>(made->front()).id;
  CHECK(world.state.volumes.at(copy).pool == "lake");
  CHECK(worker_of(world.state, world.state.volumes.at(copy)) == first);
  REQUIRE(world.run(LoseNode{first, "gone"}));
  CHECK(worker_of(world.state, world.state.volumes.at(copy)) == second);
  CHECK_FALSE(world.worked(copy, VolumeWork::kCopy, stranger));
  REQUIRE(world.worked(copy, VolumeWork::kCopy, second));
  CHECK(world.state.volumes.at(copy).state == VolumeState::kReady);
  REQUIRE(world.run(RemoveVolume{data}, world.ana));
  CHECK(world.state.volumes.at(data).state == VolumeState::kWiping);
  REQUIRE(world.worked(data, VolumeWork::kWipe, second));
  CHECK(world.state.volumes.at(data).state == VolumeState::kGone);
  const VolumeId unused = world.shared("unused");
  REQUIRE(world.run(RemoveVolume{unused}, world.ana));
  CHECK(world.state.volumes.at(unused).state == VolumeState::kGone);
}

TEST_CASE("pool: encrypted is what every node that reaches the volume says of it") {
  Pools world;
  world.node_of("a", "lake");
  world.node_of("b", "lake");
  const VolumeId id = world.shared("data");
  CHECK_FALSE(is_encrypted(world.state, world.state.volumes.at(id)));  // Nothing is in it yet.
  world.end(world.started({"data"}));
  CHECK(is_encrypted(world.state, world.state.volumes.at(id)));
  world.say("b", "lake", false);
  CHECK_FALSE(is_encrypted(world.state, world.state.volumes.at(id)));
  world.say("b", "lake", true, {{id}});
  CHECK_FALSE(is_encrypted(world.state, world.state.volumes.at(id)));
  world.say("b", "lake", true, {{id.value + 1}});  // Another one of that node.
  CHECK(is_encrypted(world.state, world.state.volumes.at(id)));
  world.say("b", "pond", false);  // A node that does not reach it has no say.
  CHECK(is_encrypted(world.state, world.state.volumes.at(id)));
}

}  // namespace
}  // namespace tranche::engine
