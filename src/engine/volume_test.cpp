// SPDX-License-Identifier: Apache-2.0
#include "engine/volume.hpp"

#include <doctest/doctest.h>

#include "engine/access.hpp"
#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using wire::VolumeWork;

constexpr std::int64_t kGigabyte = 1'000'000'000;

struct Shop : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId red = create(PartyKind::kSubscriber, acme, "red");
  PartyId green = create(PartyKind::kSubscriber, acme, "green");
  PartyId blue = create(PartyKind::kTenant, kPlatform, "blue");
  PartyId ana = user(red, "ana");
  PartyId gil = user(green, "gil");
  PartyId bob = user(blue, "bob");

  VolumeId volume(PartyId who, const std::string& name, PartyId owner = {}, std::int64_t bytes = kGigabyte) {
    const auto made = run(CreateVolume{.owner = owner, .name = name, .bytes = bytes}, who);
    TRANCHE_CHECK(made.has_value());
    return std::get<VolumeCreated>(made->front()).id;
  }
  Decision submit_with(PartyId who, std::vector<std::string> volumes, std::uint32_t nodes = 1) {
    Ask ask = gpus(1, 100);
    ask.volumes = std::move(volumes);
    ask.nodes = nodes;
    return run(SubmitJob{.ask = std::move(ask), .spec = "{}"}, who);
  }
  JobId running_with(PartyId who, const std::string& name) {
    const auto made = submit_with(who, {name});
    TRANCHE_CHECK(made.has_value());
    schedule();
    return std::get<JobSubmitted>(made->front()).id;
  }
  Decision worked(VolumeId id, VolumeWork work, bool done = true, NodeId node = {}) {
    if (node == NodeId{}) node = state.volumes.at(id).node;
    return run(
        KeepVolumeReceipt{.node = node, .receipt = {.volume = id, .work = work, .done = done, .files = 3}});
  }
  void end(JobId job) {
    const LeaseId lease = state.jobs.at(job).leases.front();
    TRANCHE_CHECK(scrub(lease).has_value());
    TRANCHE_CHECK(report(lease, LeaseState::kEnded, EndReason::kExited).has_value());
  }
};

TEST_CASE("volume: a name means something to its owner and those below him, and to nobody else") {
  Shop shop;
  const VolumeId ours = shop.volume(shop.ana, "data");
  CHECK(shop.state.volumes.at(ours).owner == shop.red);
  CHECK(find_volume(shop.state, shop.ana, "data")->id == ours);
  CHECK(find_volume(shop.state, shop.gil, "data") == nullptr);
  CHECK(find_volume(shop.state, shop.bob, "data") == nullptr);
  CHECK(shop.submit_with(shop.ana, {"data"}));
  for (const PartyId other : {shop.gil, shop.bob}) {
    const auto refused = shop.submit_with(other, {"data"});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().rule == "volumes");
    // Ids are easy to guess and say nothing: the answer is that of an id that never was.
    const auto removed = shop.run(RemoveVolume{ours}, other);
    REQUIRE_FALSE(removed);
    const auto missing = shop.run(RemoveVolume{{999}}, other);
    CHECK(removed.error().reason == Reason::kNotFound);
    CHECK(removed.error().message == missing.error().message);
    CHECK_FALSE(shop.run(SnapshotVolume{ours, "copy"}, other));
    const Actor actor{.party = other};
    CHECK(usable_volume(shop.state, actor, text(ours)) == nullptr);
    CHECK(usable_volume(shop.state, actor, "acme/red/data") == nullptr);
  }
  // The same name is another volume elsewhere; a tenant's own is seen by all of it, but not past a nearer
  // one.
  const VolumeId theirs = shop.volume(shop.bob, "data");
  CHECK(find_volume(shop.state, shop.bob, "data")->id == theirs);
  const VolumeId all = shop.volume(shop.root, "data", shop.acme);
  CHECK(find_volume(shop.state, shop.gil, "data")->id == all);
  CHECK(find_volume(shop.state, shop.ana, "data")->id == ours);
  CHECK_FALSE(shop.run(CreateVolume{.owner = shop.blue, .name = "x", .bytes = 1}, shop.ana));
  CHECK_FALSE(shop.run(CreateVolume{.owner = kPlatform, .name = "x", .bytes = 1}, shop.root));
}

TEST_CASE("volume: counts against the storage quota of everybody above it until its wipe was proven") {
  Shop shop;
  shop.node("n1", 1);
  Quota quota;
  quota.storage_bytes = at_most(3 * kGigabyte);
  REQUIRE(shop.limit(shop.acme, quota));
  const VolumeId first = shop.volume(shop.ana, "one", {}, 2 * kGigabyte);
  const auto over = shop.run(CreateVolume{.name = "two", .bytes = 2 * kGigabyte}, shop.gil);
  REQUIRE_FALSE(over);
  CHECK(over.error().rule == "storage_bytes");
  CHECK(over.error().where == "acme");
  shop.end(shop.running_with(shop.ana, "one"));
  REQUIRE(shop.run(RemoveVolume{first}, shop.ana));
  CHECK(shop.state.volumes.at(first).state == VolumeState::kWiping);
  CHECK_FALSE(shop.run(CreateVolume{.name = "two", .bytes = 2 * kGigabyte}, shop.gil));
  REQUIRE(shop.worked(first, VolumeWork::kWipe, false));  // Not proven: still taken.
  CHECK(shop.state.parties.at(shop.acme).usage.storage_bytes == 2 * kGigabyte);
  REQUIRE(shop.worked(first, VolumeWork::kWipe));
  CHECK(shop.state.volumes.at(first).state == VolumeState::kGone);
  CHECK(shop.state.volumes.at(first).receipt.files == 3);
  CHECK(shop.state.parties.at(shop.acme).usage.storage_bytes == 0);
  CHECK(shop.run(CreateVolume{.name = "one", .bytes = 2 * kGigabyte}, shop.ana));
  REQUIRE(shop.worked(first, VolumeWork::kWipe));  // Told twice: counted once.
  CHECK(shop.state.parties.at(shop.acme).usage.storage_bytes == 2 * kGigabyte);
}

TEST_CASE("volume: jobs go where their volume is, and wait there while others pass") {
  Shop shop;
  const NodeId first = shop.node("n1", 1);
  const NodeId second = shop.node("n2", 1);
  const VolumeId data = shop.volume(shop.ana, "data");
  const JobId one = shop.running_with(shop.ana, "data");
  const NodeId home = shop.state.leases.at(shop.state.jobs.at(one).leases.front()).node;
  CHECK(shop.state.volumes.at(data).node == home);
  const NodeId other = home == first ? second : first;
  shop.end(one);
  // The home is full: a job with the volume waits, one without goes to the other node.
  Ask whole = gpus(1);
  const JobId filler = shop.submit(shop.bob, whole);
  shop.schedule();
  const NodeId filled = shop.state.leases.at(shop.state.jobs.at(filler).leases.front()).node;
  const JobId filler2 = shop.submit(shop.bob, whole);
  shop.schedule();
  const JobId at_home = filled == home ? filler : filler2;
  const JobId away = filled == home ? filler2 : filler;
  shop.end(away);
  const JobId bound = shop.running_with(shop.ana, "data");
  CHECK(shop.state.jobs.at(bound).state == JobState::kPending);
  const JobId free = shop.submit(shop.ana, gpus(1, 100));
  shop.schedule();
  REQUIRE(shop.state.jobs.at(free).state == JobState::kStarting);
  CHECK(shop.state.leases.at(shop.state.jobs.at(free).leases.front()).node == other);
  shop.end(at_home);
  shop.schedule();
  REQUIRE(shop.state.jobs.at(bound).state == JobState::kStarting);
  CHECK(shop.state.leases.at(shop.state.jobs.at(bound).leases.front()).node == home);
}

TEST_CASE("volume: what is used is neither removed nor copied; a copy is ready when its node says so") {
  Shop shop;
  shop.node("n1", 1);
  const VolumeId data = shop.volume(shop.ana, "data");
  CHECK(shop.run(SnapshotVolume{data, "copy"}, shop.ana).error().rule == "empty");
  const JobId job = shop.running_with(shop.ana, "data");
  CHECK(shop.run(RemoveVolume{data}, shop.ana).error().rule == "in_use");
  CHECK(shop.run(SnapshotVolume{data, "copy"}, shop.ana).error().rule == "in_use");
  shop.end(job);
  const auto made = shop.run(SnapshotVolume{data, "copy"}, shop.ana);
  REQUIRE(made);
  const VolumeId copy = std::get<VolumeCreated>(made->front()).id;
  CHECK(shop.submit_with(shop.ana, {"copy"}).error().message.find("being copied") != std::string::npos);
  CHECK_FALSE(shop.run(RemoveVolume{data}, shop.ana));
  // Only the node that has it speaks for it.
  const NodeId stranger = shop.node("n2", 1);
  CHECK_FALSE(shop.worked(copy, VolumeWork::kCopy, true, stranger));
  REQUIRE(shop.worked(copy, VolumeWork::kCopy));
  CHECK(shop.submit_with(shop.ana, {"copy", "data"}));
  CHECK(shop.state.volumes.at(copy).source == data);
}

TEST_CASE("volume: what cannot be had is refused when it is asked for") {
  Shop shop;
  shop.volume(shop.ana, "data");
  CHECK(shop.submit_with(shop.ana, {"nothing"}).error().rule == "volumes");
  CHECK(shop.submit_with(shop.ana, {"data"}, 2).error().rule == "volumes");
  for (const char* name : {"", "Data", "../x", "a b", "vol_000001", "-x", "data"}) {
    CAPTURE(name);
    CHECK_FALSE(shop.run(CreateVolume{.name = name, .bytes = 1}, shop.ana));
  }
  CHECK_FALSE(shop.run(CreateVolume{.name = "x", .bytes = 0}, shop.ana));
  CHECK_FALSE(shop.run(CreateVolume{.name = "x", .bytes = 1, .node = {99}}, shop.ana));
  const VolumeId unused = shop.volume(shop.ana, "unused");
  REQUIRE(shop.run(RemoveVolume{unused}, shop.ana));
  CHECK(shop.state.volumes.at(unused).state == VolumeState::kGone);
  CHECK(shop.state.parties.at(shop.acme).usage.storage_bytes == kGigabyte);
}

TEST_CASE("volume: a snapshot of the state keeps them, and one from before them is read") {
  Shop shop;
  const std::string before = encode_state(shop.state);
  shop.volume(shop.ana, "data");
  const auto again = decode_state(encode_state(shop.state));
  REQUIRE(again);
  CHECK(again->volumes.begin()->second.name == "data");
  constexpr std::size_t kCounts = 13;  // Of volumes, and of twelve kinds of things about workloads.
  const auto old = decode_state(before.substr(0, before.size() - kCounts));
  REQUIRE(old);
  CHECK(old->volumes.empty());
}

}  // namespace
}  // namespace tranche::engine
