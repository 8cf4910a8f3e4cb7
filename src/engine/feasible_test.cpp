// SPDX-License-Identifier: Apache-2.0
#include "engine/feasible.hpp"

#include <doctest/doctest.h>

#include "engine/world.hpp"
#include "wire/resolve_ask.hpp"

namespace tranche::engine {
namespace {

using std::string;

constexpr std::int64_t kGigabyte = 1'000'000'000;

Ask of_model(const string& model, std::uint32_t devices = 1) {
  Ask ask = gpus(devices);
  ask.model = ask.gpus = model;
  return ask;
}
Ask share(std::int64_t gb) {
  Ask ask = gpus(1, 500);
  ask.vram_each = gb * kGigabyte;
  return ask;
}
Ask gang(std::uint32_t nodes, std::uint32_t devices_each) {
  Ask ask = gpus(nodes * devices_each);
  ask.nodes = nodes;
  return ask;
}
Ask cut(const string& model, const string& profile) {
  Ask ask = of_model(model);
  ask.isolation = Isolation::kHard;
  ask.profile = profile;
  return ask;
}

struct Door : World {
  PartyId ana = user(create(PartyKind::kTenant, kPlatform, "acme"), "ana");

  bool takes(const Ask& ask) { return run(SubmitJob{.ask = ask, .spec = "{}"}, ana).has_value(); }
  Refusal refused(const Ask& ask) {
    const auto answer = run(SubmitJob{.ask = ask, .spec = "{}"}, ana);
    REQUIRE_FALSE(answer);
    CHECK(answer.error().rule == "capacity");
    CHECK(answer.error().reason == Reason::kInvalid);
    return answer.error();
  }
};

TEST_CASE("feasible: before the first node everything waits") {
  Door door;
  CHECK(door.takes(of_model("B200-SXM", 64)));
  CHECK(door.takes(share(900)));
  CHECK(door.takes(gang(50, 8)));
}

TEST_CASE("feasible: a model that nobody has is refused with those that there are") {
  Door door;
  door.node("a", 2, "H100-SXM5-80GB");
  door.node("b", 2, "L4");
  const Refusal no = door.refused(of_model("B200-SXM"));
  CHECK(no.message == "no device connected is B200-SXM");
  CHECK(no.fix == "what there is: H100-SXM5-80GB, L4 (tranche gpus)");
  CHECK(door.takes(of_model("L4")));
}

TEST_CASE("feasible: devices that are no known model are told by their memory") {
  Door door;
  wire::Hello plain = World::hello("a", 1, "");
  plain.devices.front().vram = Bytes{23 * kGigabyte};
  door.joined(plain);
  const Refusal no = door.refused(of_model("H100-SXM5-80GB"));
  CHECK(no.message == "no device connected is H100-SXM5-80GB");
  CHECK(no.fix == "what there is: a device of 23GB (tranche gpus)");
}

TEST_CASE("feasible: more devices than one node has are refused with how many there are") {
  Door door;
  door.node("a", 4, "H100-SXM5-80GB");
  door.node("b", 8, "L4");
  const Refusal no = door.refused(of_model("H100-SXM5-80GB", 5));  // The eight are of another model.
  CHECK(no.message == "at most 4 such devices are in one node");
  CHECK(no.fix == "ask for 4, or for several nodes with num_nodes");
  CHECK(door.takes(of_model("H100-SXM5-80GB", 4)));
  CHECK(door.takes(gpus(8)));
}

TEST_CASE("feasible: more memory than the largest device is refused with how much that has") {
  Door door;
  wire::Hello small = World::hello("a", 1, "L4");
  small.devices.front().vram = Bytes{std::int64_t{23034} << 20U};
  door.joined(small);
  wire::Hello large = World::hello("b", 1, "H100-SXM5-80GB");
  large.devices.front().vram = Bytes{std::int64_t{81559} << 20U};
  door.joined(large);
  const Refusal no = door.refused(share(86));
  CHECK(no.message == "the largest such device has 85GB");
  CHECK(no.fix == "ask for at most 85GB, or for several devices");
  CHECK(door.takes(share(85)));
  Ask on_small = share(25);
  on_small.model = on_small.gpus = "L4";
  CHECK(door.refused(on_small).message == "the largest such device has 24GB");
}

TEST_CASE("feasible: a whole device that is asked for by its memory has as much") {
  Door door;
  wire::Hello small = World::hello("a", 1, "L4");
  small.devices.front().vram = Bytes{24 * kGigabyte};
  door.joined(small);
  door.node("b", 1, "H100-SXM5-80GB");
  const auto by_memory = [](const char* gpus) {
    wire::JobSpec job;
    job.resources.gpus = *wire::parse_gpu_request(gpus);
    return *wire::resolve_ask(job, {}, {}, 24 * kGigabyte);
  };
  CHECK(door.refused(by_memory("900GB")).message == "no device connected is 900GB");
  const Ask own = by_memory("{vram: 60GB, isolation: dedicated}");
  REQUIRE(door.takes(own));
  REQUIRE(door.schedule() == 1);
  const Slice& slice = door.state.leases.begin()->second.slices.front();
  CHECK(door.state.devices.at(slice.device).facts.model == "H100-SXM5-80GB");
  door.node("c", 1, "H100-SXM5-80GB");
  CHECK(door.takes(by_memory("80GB")));
}

TEST_CASE("feasible: processors and memory of the host are bounded by the largest node") {
  Door door;
  door.node("a", 2);
  Ask ask = gpus(1);
  ask.cpu_milli = 65'000;
  CHECK(door.refused(ask).fix == "ask for at most 64 CPUs");
  ask.cpu_milli = 64'000;
  CHECK(door.takes(ask));
  ask.memory_bytes = 600 * kGigabyte;
  CHECK(door.refused(ask).message.find("of memory for it") != string::npos);
  ask.memory_bytes = 500 * kGigabyte;
  CHECK(door.takes(ask));
}

TEST_CASE("feasible: what is there, but never on one node at once, is refused") {
  Door door;
  wire::Hello narrow = World::hello("a", 8, "H100-SXM5-80GB");
  narrow.cpus = 8;
  door.joined(narrow);
  door.node("b", 1);
  Ask ask = gpus(4);
  ask.cpu_milli = 32'000;
  CHECK(door.refused(ask).message == "no node connected has all of it at once, even empty");
}

TEST_CASE("feasible: a gang larger than all nodes is refused with how many members would fit") {
  Door door;
  door.node("a", 4);
  door.node("b", 4);
  door.node("c", 2);
  const Refusal no = door.refused(gang(3, 4));
  CHECK(no.message == "all nodes together could hold 2 members of it, even empty");
  CHECK(no.fix == "ask for at most 2 of them");
  CHECK(door.takes(gang(2, 4)));
  CHECK(door.takes(gang(5, 2)));
  CHECK_FALSE(door.takes(gang(6, 2)));
}

TEST_CASE("feasible: a partition that no device of the model can be cut into is refused") {
  Door door;
  door.partitionable("a", 1, "H100-SXM5-80GB");
  door.partitionable("b", 1, "H200-SXM-141GB");
  CHECK(door.takes(cut("H100-SXM5-80GB", "3g.40gb")));
  const Refusal no = door.refused(cut("H200-SXM-141GB", "3g.40gb"));
  CHECK(no.message == "no device connected can be cut into 3g.40gb");
  CHECK(no.fix.find("3g.71gb") != string::npos);
  CHECK(no.fix.find("3g.40gb") == string::npos);
}

TEST_CASE("feasible: nodes that are busy or away count, and those that were removed do not") {
  Door door;
  const NodeId large = door.node("a", 8);
  door.node("b", 2);
  REQUIRE(door.takes(gpus(8)));
  CHECK(door.schedule() == 1);
  CHECK(door.takes(gpus(8)));  // Busy.
  REQUIRE(door.run(LoseNode{large, "silent"}));
  CHECK(door.takes(gpus(8)));  // Away.
  REQUIRE(door.run(RemoveNode{large}, door.root));
  CHECK(door.refused(gpus(8)).message == "at most 2 such devices are in one node");
}

TEST_CASE("feasible: what may come from elsewhere waits for it") {
  Door door;
  door.node("a", 1);
  Ask ask = of_model("B200-SXM", 8);
  CHECK_FALSE(door.takes(ask));
  ask.may_burst = true;
  CHECK(door.takes(ask));
}

TEST_CASE("feasible: simulated devices are for jobs that ask for them, and say how") {
  Door door;
  door.node("sim-a", 8);
  CHECK(door.refused(gpus(1)).fix == "simulated devices take jobs that say infra: simulated");
  door.node("plain", 0);  // A real one with processors alone changes nothing of it.
  for (const Ask& wish : {gpus(1), share(10), of_model("H100-SXM5-80GB")}) {
    CHECK(door.refused(wish).message == "no node connected has a device");
    CHECK(door.refused(wish).fix == "simulated devices take jobs that say infra: simulated");
  }
  Ask ask = gpus(8);
  ask.simulated = true;
  CHECK(door.takes(ask));
  Door real;
  real.node("a", 8);
  CHECK(real.refused(ask).message == "no simulated node is connected");
  real.node("sim-b", 1, "L4");
  CHECK(
      real.refused(of_model("L4")).fix ==
      "what there is: H100-SXM5-80GB (tranche gpus); simulated devices take jobs that say infra: simulated");
  Door bare;
  bare.node("plain", 0);
  CHECK(bare.refused(gpus(1)).fix == "add a node that has one: tranche node add NAME");
}

TEST_CASE("feasible: a job that wants its nodes for itself gets all that the largest has") {
  Door door;
  door.node("a", 4);
  door.node("b", 8);
  Ask ask = gpus(1, 250);
  CHECK(with_whole_nodes(door.state, ask) == ask);
  ask.whole_node = true;
  const Ask whole = with_whole_nodes(door.state, ask);
  CHECK(whole.instances == 8);
  CHECK(whole.milli_each == 1000);
  CHECK(whole.cpu_milli == 64'000);
  const JobId id = door.submit(door.ana, ask);
  CHECK(door.state.jobs.at(id).ask.instances == 8);
}

}  // namespace
}  // namespace tranche::engine
