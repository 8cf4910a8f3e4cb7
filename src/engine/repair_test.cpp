// SPDX-License-Identifier: Apache-2.0
// What people do with devices by hand, what a warning leads to, signals that name no device, and what a node
// is.
#include <doctest/doctest.h>

#include "engine/device_life.hpp"
#include "engine/fleet_world.hpp"
#include "wire/health_codes.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using wire::NodeCondition;

std::size_t granted_on(const World& world, DeviceId device) {
  std::size_t count = 0;
  for (const auto& [id, lease] : world.state.leases)
    for (const Slice& slice : lease.slices) count += slice.device == device;
  return count;
}

TEST_CASE("repair: somebody takes a device out by hand; its jobs are moved, and charged") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 2);
  const LeaseId lease = world.running(world.ana, gpus(1));
  const DeviceId device = world.state.leases.at(lease).slices.front().device;
  CHECK(world.run(OpenRepair{device, ""}, world.root).error().rule == "reason");
  CHECK_FALSE(world.run(OpenRepair{device, "mine"}, world.ana));
  CHECK(world.run(OpenRepair{DeviceId{999}, "whose"}, world.root).error().reason == Reason::kNotFound);
  REQUIRE(world.run(OpenRepair{device, "the fan rattles"}, world.root));
  CHECK(world.of(device) == DeviceState::kDraining);
  CHECK(world.state.leases.at(lease).revoked);
  CHECK_FALSE(is_platform_fault(world.state.leases.at(lease).revoke_reason));
  CHECK(world.run(OpenRepair{device, "again"}, world.root).error().message ==
        "rep_1 of this device is open already");
  CHECK_FALSE(world.run(ChangeRepair{.id = 1, .to = RepairState::kRetired, .note = "too early"}, world.root));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kInRepair);
  REQUIRE(world.state.repairs.size() == 1);  // The same one.
  CHECK(world.schedule() == 1);              // On the other device.
  REQUIRE(world.run(ChangeRepair{.id = 1, .to = RepairState::kReturned}, world.root));
  CHECK(world.state.devices.at(device).record.level == TestLevel::kFull);
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kHealthy);
}

TEST_CASE("repair: a device can be taken out from wherever it is, but not while it is being reset") {
  Fleet world;
  const NodeId node = world.found("gpu-01", 1);
  REQUIRE(world.run(OpenRepair{world.device(node), "the wrong slot"}, world.root));  // Still being accepted.
  CHECK(world.of(world.device(node)) == DeviceState::kInRepair);
  REQUIRE(world.accept(node));  // An answer to what nobody waits for any more.
  CHECK(world.of(world.device(node)) == DeviceState::kInRepair);
  const NodeId lost = world.fit("gpu-02", 1);
  REQUIRE(world.run(LoseNode{lost, "silent"}));
  REQUIRE(world.run(OpenRepair{world.device(lost), "it is in the lab"}, world.root));
  CHECK(world.of(world.device(lost)) == DeviceState::kInRepair);
  const NodeId third = world.fit("gpu-03", 1);
  REQUIRE(world.signal(world.device(third), "xid", 48));
  REQUIRE(world.of(world.device(third)) == DeviceState::kResetting);
  CHECK(world.run(OpenRepair{world.device(third), "now"}, world.root).error().rule == "repair");
}

TEST_CASE("repair: retired is for a reason and for good, in this machine and in any other") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 2);
  const DeviceId device = world.device(node);
  REQUIRE(world.run(OpenRepair{device, "memory errors"}, world.root));
  CHECK(world.run(ChangeRepair{.id = 1, .to = RepairState::kRetired}, world.root).error().rule == "reason");
  CHECK_FALSE(world.run(ChangeRepair{.id = 1, .to = RepairState::kRetired, .note = "x"}, world.ana));
  const auto retired =
      world.run(ChangeRepair{.id = 1, .to = RepairState::kRetired, .note = "out of warranty"}, world.root);
  REQUIRE(retired);
  const auto& step = std::get<DeviceStateChanged>(retired->back());
  CHECK(step.after == DeviceState::kRetired);
  CHECK(step.reason == "out of warranty");
  CHECK(step.actor == world.root);
  CHECK_FALSE(step.table_version.empty());
  CHECK(world.state.repairs.at(1).state == RepairState::kRetired);
  CHECK(health_words(world.state, world.state.devices.at(device)) == "retired: out of warranty");
  // Nothing brings it back: no test, no repair, no return of its node, no signal.
  CHECK_FALSE(world.run(ChangeRepair{.id = 1, .to = RepairState::kReturned}, world.root));
  CHECK_FALSE(world.run(OpenRepair{device, "another try"}, world.root));
  REQUIRE(world.run(TestNode{node, TestLevel::kQuick}, world.root));
  REQUIRE(world.signal(device, "xid", 48));
  REQUIRE(world.run(LoseNode{node, "silent"}));
  REQUIRE(world.run(ReportNode{node, Fleet::hello("gpu-01", 2, "H100-SXM5-80GB")}));
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kRetired);
  for (int i = 0; i < 4; ++i) {
    Ask ask = gpus(1);
    ask.preemptible = true;
    world.submit(world.ana, ask);
  }
  world.schedule();
  CHECK(granted_on(world, device) == 0);
  CHECK(granted_on(world, world.device(node, 1)) == 1);
  // The card is put into another machine.
  const NodeId other = world.fit("gpu-02", 1);
  wire::Hello said = Fleet::hello("gpu-02", 1, "H100-SXM5-80GB");
  said.devices.push_back(world.state.devices.at(device).facts);
  said.devices.back().vendor = wire::GpuVendor::kNvidia;  // Who numbers every card; others may be alike.
  REQUIRE(world.run(ReportNode{other, said}));
  const Device& again = world.state.devices.at(world.device(other, 1));
  CHECK(again.state == DeviceState::kRetired);
  CHECK(again.reason == "it was retired as " + text(device) + " of gpu-01: out of warranty");
}

TEST_CASE("repair: one whose device came back by itself can be dismissed") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  REQUIRE(world.signal(world.device(node), "agent", wire::kLeaseStuck));
  REQUIRE(world.of(world.device(node)) == DeviceState::kQuarantined);
  REQUIRE(world.signal(world.device(node), "telemetry", wire::kDeviceSilent));
  REQUIRE(world.run(LoseNode{node, "silent"}));
  REQUIRE(world.run(ReportNode{node, Fleet::hello("gpu-01", 1, "H100-SXM5-80GB")}));
  REQUIRE(world.accept(node));
  REQUIRE(world.of(world.device(node)) == DeviceState::kProbation);
  REQUIRE(world.run(ChangeRepair{.id = 1, .to = RepairState::kDismissed}, world.root));
  CHECK(world.of(world.device(node)) == DeviceState::kProbation);
  CHECK(world.state.repairs.at(1).state == RepairState::kDismissed);
}

TEST_CASE("repair: a device taken out by hand is in repair when its lost node comes back") {
  for (const int tenants : {1, 2}) {  // On the device, saving their work when the node is lost.
    CAPTURE(tenants);
    Fleet world;
    const NodeId node = world.fit("gpu-01", 1);
    for (int i = 0; i < tenants; ++i) world.running(world.ana, gpus(1, tenants == 1 ? 1000 : 400));
    const DeviceId device = world.device(node);
    REQUIRE(world.run(OpenRepair{device, "the fan rattles"}, world.root));
    REQUIRE(world.of(device) == DeviceState::kDraining);
    REQUIRE(world.run(LoseNode{node, "silent"}));
    CHECK(world.of(device) == DeviceState::kInRepair);
    wire::Hello said = Fleet::hello("gpu-01", 1, "H100-SXM5-80GB");
    said.boot_id = "boot-2";
    REQUIRE(world.run(ReportNode{node, said}));
    REQUIRE(world.run(Tick{}));
    REQUIRE(world.accept(node));
    CHECK(world.of(device) == DeviceState::kInRepair);
    CHECK(world.state.repairs.at(1).state == RepairState::kOpen);
    REQUIRE(world.run(ChangeRepair{.id = 1, .to = RepairState::kReturned}, world.root));
    REQUIRE(world.accept(node));
    CHECK(world.of(device) == DeviceState::kHealthy);
  }
}

TEST_CASE("repair: a device taken out by hand that its driver loses goes to repair when its job is gone") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  const DeviceId device = world.device(node);
  REQUIRE(world.run(OpenRepair{device, "the fan rattles"}, world.root));
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceSilent));
  REQUIRE(world.of(device) == DeviceState::kLost);
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceBack));
  CHECK(world.of(device) == DeviceState::kLost);  // Not to its tests.
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kInRepair);
  CHECK(world.state.devices.at(device).reason == "the fan rattles");
  CHECK(world.state.repairs.size() == 1);
}

TEST_CASE("repair: what a device needs is not made less by a signal that asks for less") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  const DeviceId device = world.device(node);
  REQUIRE(world.run(OpenRepair{device, "the fan rattles"}, world.root));
  REQUIRE(world.signal(device, "xid", 48));  // A reset would do for it,
  REQUIRE(world.signal(device, "xid", 63));  // and one day, for this.
  CHECK(world.of(device) == DeviceState::kDraining);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kInRepair);
  CHECK(world.state.repairs.at(1).state == RepairState::kOpen);
}

TEST_CASE("health: a device that is heard again is tested when nobody saves his work there any more") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId first = world.running(world.ana, gpus(1, 400)),
                second = world.running(world.ana, gpus(1, 400));
  const DeviceId device = world.device(node);
  const DeviceRecord& record = world.state.devices.at(device).record;
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceSilent));
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceBack));
  CHECK(world.of(device) == DeviceState::kLost);
  CHECK(record.order == 0);
  REQUIRE(world.report(first, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(record.order == 0);
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceSilent));  // Once more, before its test.
  REQUIRE(world.report(second, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kLost);
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceBack));
  CHECK(world.of(device) == DeviceState::kValidating);
  CHECK(record.order != 0);
  REQUIRE(world.scrub(first));
  REQUIRE(world.scrub(second));
  REQUIRE(world.accept(node));
  const LeaseId third = [&] {
    Ask ask = gpus(1);
    ask.preemptible = true;  // It is on probation.
    return world.running(world.ana, ask);
  }();
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceSilent));
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceBack));
  CHECK(record.order == 0);
  REQUIRE(world.report(third, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kValidating);
  CHECK(record.order != 0);
}

TEST_CASE("health: what a device is drained for is done when its node comes back, however many were on it") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  world.running(world.ana, gpus(1, 400));
  world.running(world.ana, gpus(1, 400));
  const DeviceId device = world.device(node);
  REQUIRE(world.signal(device, "xid", 48));
  REQUIRE(world.of(device) == DeviceState::kDraining);
  REQUIRE(world.run(LoseNode{node, "silent"}));
  CHECK(world.of(device) == DeviceState::kResetting);
  CHECK(world.state.devices.at(device).record.task == DeviceTask::kReset);
}

TEST_CASE("health: a device below its floors is on probation, until a test finds it well") {
  Fleet world;
  const NodeId node = world.found("gpu-01", 1);
  const DeviceId device = world.device(node);
  REQUIRE(world.accept(node, wire::Verdict::kWarning));
  CHECK(world.of(device) == DeviceState::kProbation);
  CHECK(health_words(world.state, world.state.devices.at(device)) ==
        "on probation: takes work that may be stopped; memory");
  CHECK(world.state.repairs.empty());
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);  // It may not be stopped.
  for (const wire::Verdict found : {wire::Verdict::kWarning, wire::Verdict::kPass}) {
    world.clock += hours(73);
    REQUIRE(world.run(Tick{}));
    CHECK(world.of(device) == DeviceState::kScrubbing);
    REQUIRE(world.accept(node, found));
    CHECK(world.of(device) ==
          (found == wire::Verdict::kPass ? DeviceState::kHealthy : DeviceState::kProbation));
  }
  CHECK(world.schedule() == 1);
  // Where the operator knows better, it is healthy, and the finding is shown.
  HealthPolicy policy = world.state.health.policy;
  policy.probation_on_warning = false;
  REQUIRE(world.run(SetHealthPolicy{policy}, world.root));
  const NodeId second = world.found("gpu-02", 1);
  REQUIRE(world.accept(second, wire::Verdict::kWarning));
  CHECK(world.of(world.device(second)) == DeviceState::kHealthy);
  CHECK(health_words(world.state, world.state.devices.at(world.device(second))) == "healthy; memory");
}

TEST_CASE(
    "health: a signal that names no device is about all that it may mean, and one of a stranger about none") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 2);
  const LeaseId lease = world.running(world.ana, gpus(2));
  const auto told = [&](std::string uuid, std::string source, std::int64_t code) {
    return world.run(NoteHealth{.node = node,
                                .signal = {.uuid = std::move(uuid),
                                           .source = std::move(source),
                                           .code = code,
                                           .at = world.clock,
                                           .text = "seen"}});
  };
  REQUIRE(told("pci:0000:c1:00", "xid", 79));  // Of another's card in the same machine.
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);
  REQUIRE(told("", "xid", 4242));  // Unknown, and of nobody: both are watched.
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(world.of(world.device(node, i)) == DeviceState::kSuspect);
    const auto& signals = world.state.devices.at(world.device(node, i)).record.signals;
    REQUIRE(signals.size() == 1);
    CHECK(signals.back().action == policy::HealthAction::kSuspect);
  }
  const auto gone = told("GPU-of-nobody", "xid", 79);
  REQUIRE(gone);
  const auto revoked = std::count_if(gone->begin(), gone->end(), [](const Event& event) {
    return std::holds_alternative<LeaseRevoked>(event);
  });
  CHECK(revoked == 1);  // Once, whatever it has.
  CHECK(world.state.leases.at(lease).revoke_reason == EndReason::kNodeFault);
  for (std::size_t i = 0; i < 2; ++i) CHECK(world.of(world.device(node, i)) == DeviceState::kDraining);
}

TEST_CASE("health: an Xid that names no device is none of a CPU's") {
  Fleet world;
  wire::Hello said = Fleet::hello("gpu-01", 2, "H100-SXM5-80GB");
  said.devices[0].vendor = wire::GpuVendor::kNvidia;
  const NodeId node = world.joined(said);
  REQUIRE(world.run(NoteHealth{.node = node, .signal = {.source = "xid", .code = 48, .at = world.clock}}));
  CHECK(world.of(world.device(node, 0)) == DeviceState::kResetting);
  CHECK(world.of(world.device(node, 1)) == DeviceState::kHealthy);
  REQUIRE(world.run(NoteHealth{.node = node, .signal = {.source = "thermal", .code = 1, .at = world.clock}}));
  CHECK(world.of(world.device(node, 1)) == DeviceState::kSuspect);
}

TEST_CASE("health: a device that was silent is tested when it is heard again") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const DeviceId device = world.device(node);
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceSilent));
  CHECK(world.of(device) == DeviceState::kLost);
  REQUIRE(world.signal(device, "telemetry", wire::kDeviceBack));
  CHECK(world.of(device) == DeviceState::kValidating);
  CHECK(world.state.devices.at(device).record.level == TestLevel::kStandard);
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kProbation);
}

TEST_CASE(
    "health: a node that was removed can be invited again, and its devices are tested before anybody gets "
    "one") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  REQUIRE(world.run(RemoveNode{node}, world.root));
  CHECK(world.of(world.device(node)) == DeviceState::kLost);
  REQUIRE(world.found("gpu-01", 1) == node);
  CHECK(world.of(world.device(node)) == DeviceState::kValidating);
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
  REQUIRE(world.accept(node));
  CHECK(world.of(world.device(node)) == DeviceState::kProbation);
}

TEST_CASE("health: a node is what its devices are") {
  Fleet world;
  const NodeId node = world.found("gpu-01", 2);
  const auto is = [&] { return condition_of(world.state, world.state.nodes.at(node)); };
  CHECK(is() == NodeCondition::kTesting);
  CHECK(devices_words(world.state, world.state.nodes.at(node)) == "2 accepting");
  REQUIRE(world.accept(node));
  CHECK(is() == NodeCondition::kReady);
  CHECK(devices_words(world.state, world.state.nodes.at(node)) == "2 healthy");
  REQUIRE(world.signal(world.device(node, 0), "xid", 48));
  CHECK(is() == NodeCondition::kDegraded);
  CHECK(devices_words(world.state, world.state.nodes.at(node)) == "1 healthy, 1 resetting");
  REQUIRE(world.signal(world.device(node, 1), "xid", 48));
  CHECK(is() == NodeCondition::kTesting);
  REQUIRE(world.accept(node));  // Reset,
  REQUIRE(world.accept(node));  // and tested.
  CHECK(is() == NodeCondition::kProbation);
  for (std::size_t i = 0; i < 2; ++i) REQUIRE(world.signal(world.device(node, i), "xid", 54));
  CHECK(is() == NodeCondition::kOutOfService);
  for (const std::uint64_t repair : {std::uint64_t{1}, std::uint64_t{2}})
    REQUIRE(world.run(ChangeRepair{.id = repair, .to = RepairState::kRetired, .note = "scrap"}, world.root));
  CHECK(is() == NodeCondition::kOutOfService);
  REQUIRE(world.run(ChangeNode{.id = node, .cordoned = true}, world.root));
  CHECK(is() == NodeCondition::kCordoned);
  const NodeId bare = world.node("cpu-01", 0);
  CHECK(condition_of(world.state, world.state.nodes.at(bare)) == NodeCondition::kReady);
}

TEST_CASE("repair: a device that goes with its node says which of its neighbours it goes for") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 2);
  const DeviceId left = world.device(node, 0), beside = world.device(node, 1);
  const LeaseId one = world.running(world.ana, gpus(1)), other = world.running(world.ana, gpus(1));
  const auto signal = [&](DeviceId device) {
    return wire::HealthSignal{
        .uuid = world.state.devices.at(device).facts.uuid, .source = "xid", .code = 79, .at = world.clock};
  };
  REQUIRE(world.run(NoteHealth{.node = node, .signal = signal(left)}));
  for (const LeaseId id : {one, other})
    REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(health_words(world.state, world.state.devices.at(left)) == "out of service: xid 79: it left the bus");
  CHECK(health_words(world.state, world.state.devices.at(beside)) ==
        "out of service: " + text(left) + " of its node: xid 79: it left the bus");
}

}  // namespace
}  // namespace tranche::engine
