// SPDX-License-Identifier: Apache-2.0
// Devices through their life in the engine: nobody gets one that was not tested, and a fault touches only
// those who were on it.
#include "engine/health.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "engine/device_life.hpp"
#include "engine/fleet_world.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"
#include "wire/health_codes.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST_CASE("health: a new device takes no work before it was tested and wiped") {
  Fleet world;
  const NodeId node = world.found("gpu-01", 2);
  CHECK(world.of(world.device(node)) == DeviceState::kAccepting);
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
  const Device& first = world.state.devices.at(world.device(node));
  // In full, unless the operator's policy says otherwise; and everybody sees since when.
  CHECK(first.record.level == TestLevel::kFull);
  CHECK(health_words(world.state, first) ==
        "being tested before use (full, since " + text(first.since) + ")");
  REQUIRE(world.accept(node));
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);
  CHECK(world.schedule() == 1);
  const Lease& lease = world.state.leases.begin()->second;
  REQUIRE(lease.tested.size() == 1);  // The proof goes with the lease.
}

TEST_CASE("health: what fails its test goes to repair, and what cannot be tested is tried once more") {
  Fleet world;
  const NodeId bad = world.found("gpu-01", 1);
  REQUIRE(world.accept(bad, wire::Verdict::kCritical));
  CHECK(world.of(world.device(bad)) == DeviceState::kInRepair);
  REQUIRE(world.state.repairs.size() == 1);
  const NodeId mute = world.found("gpu-02", 1);
  REQUIRE(world.accept(mute, wire::Verdict::kUnknown));
  CHECK(world.of(world.device(mute)) == DeviceState::kAccepting);
  REQUIRE(world.accept(mute, wire::Verdict::kUnknown));
  CHECK(world.of(world.device(mute)) == DeviceState::kInRepair);
  // Mended, and tested in full.
  const std::uint64_t repair = world.state.repairs.rbegin()->first;
  REQUIRE(world.run(ChangeRepair{.id = repair, .to = RepairState::kReturned}, world.root));
  CHECK(world.state.devices.at(world.device(mute)).record.level == TestLevel::kFull);
  REQUIRE(world.accept(mute));
  CHECK(world.of(world.device(mute)) == DeviceState::kHealthy);
  CHECK_FALSE(world.run(ChangeRepair{.id = repair, .to = RepairState::kReturned}, world.root));
  CHECK_FALSE(world.run(ChangeRepair{.id = 1, .to = RepairState::kAccepted}, world.ana));
}

TEST_CASE("health: a fault touches the jobs of its device alone; they run again elsewhere, credited") {
  Fleet world;
  const PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = units(2)}}};
  REQUIRE(world.run(SetPriceList{list}, world.root));
  REQUIRE(world.run(TopUp{world.acme, units(100), "", ""}, world.root));
  const NodeId node = world.fit("gpu-01", 3);
  const LeaseId hit = world.running(world.ana, gpus(1));
  const LeaseId spared = world.running(world.ana, gpus(1));
  const Lease before = world.state.leases.at(hit);
  const DeviceId device = before.slices.front().device;
  const Instant fault = world.clock + minutes(15);
  world.clock += minutes(30);
  REQUIRE(world.run(ReportMeters{.node = node,
                                 .records = {{.lease = hit,
                                              .epoch = before.epoch,
                                              .sequence = 1,
                                              .device = device,
                                              .from = fault - minutes(15),
                                              .to = world.clock}}}));
  Device faulty = world.state.devices.at(device);
  REQUIRE(world.run(NoteHealth{
      .node = node, .signal = {.uuid = faulty.facts.uuid, .source = "xid", .code = 48, .at = fault}}));
  CHECK(world.of(device) == DeviceState::kDraining);
  CHECK(world.state.leases.at(hit).revoked);
  CHECK_FALSE(world.state.leases.at(spared).revoked);
  const Device& draining = world.state.devices.at(device);
  CHECK(health_words(world.state, draining) ==
        "draining, ends " + text(world.clock + seconds(30)) + ": xid 48: the device needs a reset");
  // As long as the job itself asks for, where it does.
  world.state.jobs.at(before.job).spec = R"({"run": "x", "checkpoint": {"path": "/work", "grace": "5m"}})";
  CHECK(health_words(world.state, draining).starts_with("draining, ends " + text(world.clock + minutes(5))));
  CHECK(draining.record.signals.back().table_version == "signals-2");
  REQUIRE(world.report(hit, LeaseState::kEnded, EndReason::kExited, 143));
  CHECK(world.of(device) == DeviceState::kResetting);
  const Job& job = world.state.jobs.at(before.job);
  CHECK(job.state == JobState::kPending);
  CHECK(job.reason == EndReason::kDeviceFault);
  CHECK(job.credited.micros == 500'000);  // A quarter of an hour at two.
  REQUIRE(world.scrub(hit));
  world.clock += seconds(10);
  CHECK(world.schedule() == 1);  // Elsewhere.
  CHECK(world.state.leases.at(world.state.jobs.at(before.job).leases.front()).slices.front().device !=
        device);
  // Reset, tested, wiped: back, and watched. Only work that may be stopped goes there.
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kValidating);
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kProbation);
  const JobId firm = world.submit(world.bob, gpus(1));
  CHECK(world.schedule() == 0);
  Ask yielding = gpus(1);
  yielding.preemptible = true;
  const JobId soft = world.submit(world.bob, yielding);
  CHECK(world.schedule() == 1);
  CHECK(world.state.jobs.at(firm).state == JobState::kPending);
  CHECK(world.state.jobs.at(soft).state == JobState::kStarting);
}

TEST_CASE("health: a lemon is not mended for ever") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const DeviceId device = world.device(node);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(world.signal(device, "xid", 119));
    CHECK(world.of(device) == DeviceState::kResetting);
    REQUIRE(world.accept(node));
    REQUIRE(world.accept(node));
    CHECK(world.of(device) == DeviceState::kProbation);
    world.clock += hours(1);
  }
  REQUIRE(world.signal(device, "xid", 119));
  CHECK(world.of(device) == DeviceState::kInRepair);
  CHECK(world.state.repairs.size() == 1);
}

TEST_CASE("health: a suspect keeps its jobs, takes no more, and is cleared by a day and a test") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const DeviceId device = world.device(node);
  const LeaseId lease = world.running(world.ana, gpus(1, 500));
  REQUIRE(world.signal(device, "xid", 4242));  // Nobody's row: never ignored.
  CHECK(world.of(device) == DeviceState::kSuspect);
  CHECK_FALSE(world.state.leases.at(lease).revoked);
  world.submit(world.ana, gpus(1, 100));
  CHECK(world.schedule() == 0);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(lease));
  world.clock += hours(23);
  REQUIRE(world.run(Tick{}));
  CHECK(world.of(device) == DeviceState::kSuspect);
  world.clock += hours(2);
  REQUIRE(world.run(Tick{}));
  CHECK(world.of(device) == DeviceState::kScrubbing);
  REQUIRE(world.accept(node));
  CHECK(world.of(device) == DeviceState::kHealthy);
  CHECK(world.schedule() == 1);
}

TEST_CASE("health: what waits for an idle device is done when its job has ended") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const DeviceId device = world.device(node);
  const LeaseId lease = world.running(world.ana, gpus(1));
  REQUIRE(world.signal(device, "xid", 63));  // A remap waits for a reset; the job goes on.
  CHECK(world.of(device) == DeviceState::kHealthy);
  CHECK_FALSE(world.state.leases.at(lease).revoked);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(lease));
  REQUIRE(world.run(Tick{}));
  CHECK(world.of(device) == DeviceState::kResetting);
}

TEST_CASE("health: memory without error correction is never shared") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  REQUIRE(world.signal(world.device(node), "ecc", wire::kEccOff));
  world.submit(world.ana, gpus(1, 500));
  CHECK(world.schedule() == 0);
  Ask whole = gpus(1);
  whole.isolation = Isolation::kDedicated;
  const LeaseId lease = world.running(world.ana, whole);
  // Neither the wipe after a lease nor a test gives it error correction; a reset may.
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(lease));
  REQUIRE(world.accept(node));
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);
  CHECK(world.schedule() == 0);
  REQUIRE(world.signal(world.device(node), "xid", 48));
  CHECK(world.of(world.device(node)) == DeviceState::kResetting);
  CHECK_FALSE(world.state.devices.at(world.device(node)).record.dedicated_only);
}

TEST_CASE("health: every step of a device names its signal, the table and who wanted it") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  std::vector<DeviceStateChanged> steps;
  const auto note = [&](const Decision& decision) {
    REQUIRE(decision);
    for (const Event& event : *decision)
      if (const auto* changed = std::get_if<DeviceStateChanged>(&event)) steps.push_back(*changed);
  };
  note(world.signal(world.device(node), "xid", 48));
  note(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(steps.size() == 3);  // Draining, quarantined, resetting.
  for (const DeviceStateChanged& step : steps) {
    CHECK(step.signal == "xid 48");
    CHECK(step.table_version == "signals-2");
    CHECK(step.actor == kPlatform);
  }
  steps.clear();
  note(world.accept(node));  // Reset.
  note(world.run(LoseNode{node, "silent"}));
  REQUIRE(steps.size() == 2);
  CHECK(steps.back().signal == "telemetry 2");
  for (const DeviceStateChanged& step : steps) {
    CHECK_FALSE(step.table_version.empty());
    CHECK(step.actor == kPlatform);
  }
}

TEST_CASE("health: one that is slower than others of its model, on whatever node, is watched") {
  Fleet world;
  const auto tested = [&](NodeId node, TestLevel level, std::int64_t speed) {
    REQUIRE(world.run(TestNode{node, level}, world.root));
    const DeviceId id = world.device(node);
    wire::Receipts receipts;
    receipts.outcomes.push_back({.order = world.state.devices.at(id).record.order,
                                 .device = id,
                                 .task = DeviceTask::kAccept,
                                 .done = true});
    receipts.acceptances.push_back({.device = id,
                                    .level = level,
                                    .verdict = wire::Verdict::kPass,
                                    .at = world.clock,
                                    .table_version = "floors-1",
                                    .tests = {{.name = "bandwidth.within_device",
                                               .verdict = wire::Verdict::kPass,
                                               .measured = speed,
                                               .unit = "MB/s"}}});
    receipts.scrubs.push_back(
        {.device = id, .at = world.clock, .zeroed = gigabytes(1), .verified = gigabytes(1)});
    REQUIRE(world.run(KeepReceipts{.node = node, .receipts = receipts}));
    return world.of(id);
  };
  const NodeId first = world.fit("gpu-01", 1), second = world.fit("gpu-02", 1),
               third = world.fit("gpu-03", 1);
  CHECK(tested(first, TestLevel::kStandard, 1000) == DeviceState::kHealthy);
  CHECK(tested(second, TestLevel::kStandard, 500) == DeviceState::kHealthy);  // Of two, which one is it?
  CHECK(tested(second, TestLevel::kStandard, 1010) == DeviceState::kHealthy);
  CHECK(tested(third, TestLevel::kFull, 500) == DeviceState::kHealthy);  // Another test.
  CHECK(tested(third, TestLevel::kStandard, 900) == DeviceState::kHealthy);
  CHECK(tested(third, TestLevel::kQuick, 500) == DeviceState::kHealthy);
  CHECK(tested(third, TestLevel::kStandard, 899) == DeviceState::kSuspect);
  CHECK(health_words(world.state, world.state.devices.at(world.device(third))) ==
        "degraded, being watched: bandwidth.within_device is 899 MB/s, its peers reach 1000");
}

TEST_CASE("health: bytes left after a wipe put the device out of service") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  wire::Receipts receipts;
  receipts.scrubs.push_back({.device = world.device(node),
                             .lease = lease,
                             .zeroed = gigabytes(1),
                             .verified = gigabytes(1),
                             .nonzero_bytes = 7});
  REQUIRE(world.run(KeepReceipts{.node = node, .receipts = receipts}));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  CHECK(world.of(world.device(node)) == DeviceState::kQuarantined);
  CHECK(world.state.repairs.size() == 1);
}

TEST_CASE("health: the breaker keeps a bad table or a bad day from draining the fleet") {
  Fleet world;
  std::vector<NodeId> nodes;
  for (int i = 0; i < 12; ++i) nodes.push_back(world.fit("gpu-" + std::to_string(10 + i), 1));
  std::vector<LeaseId> leases;
  for (int i = 0; i < 12; ++i) leases.push_back(world.running(world.ana, gpus(1)));
  int drained = 0;
  for (const NodeId node : nodes) {
    REQUIRE(world.signal(world.device(node), "xid", 95));
    drained += world.of(world.device(node)) == DeviceState::kDraining;
    world.clock += seconds(5);
  }
  CHECK(drained == 3);
  CHECK(world.state.health.breaker_open);
  int revoked = 0;
  for (const LeaseId lease : leases) revoked += world.state.leases.at(lease).revoked;
  CHECK(revoked == 3);
  CHECK(world.of(world.device(nodes.back())) == DeviceState::kSuspect);  // Kept from new work all the same.
  world.clock += hours(1);
  REQUIRE(world.signal(world.device(nodes.back()), "xid", 95));  // It does not close by itself.
  CHECK(world.of(world.device(nodes.back())) == DeviceState::kSuspect);
  // One that fell idle meanwhile waits, however long, and is then mended as its signal asked.
  const DeviceId idle = world.device(nodes[6]);
  const LeaseId left = leases_on(world.state, world.state.devices.at(idle)).front()->id;
  REQUIRE(world.report(left, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(left));
  world.clock += hours(48);
  REQUIRE(world.run(Tick{}));
  CHECK(world.of(idle) == DeviceState::kSuspect);
  CHECK_FALSE(world.run(SetBreaker{false}, world.ana));
  REQUIRE(world.run(SetBreaker{false}, world.root));
  REQUIRE(world.run(Tick{}));
  CHECK(world.of(idle) == DeviceState::kResetting);
  REQUIRE(world.signal(world.device(nodes.back()), "xid", 95));
  CHECK(world.of(world.device(nodes.back())) == DeviceState::kDraining);
}

TEST_CASE("health: a policy of the operator's own replaces the table of its family") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  HealthPolicy policy;
  policy::HealthTable table{.version = "ours-3", .family = "nvidia"};
  table.rows.push_back(
      {.source = "xid", .codes = {48}, .action = policy::HealthAction::kNote, .means = "ours"});
  table.unknown.action = policy::HealthAction::kSuspect;
  policy.tables.push_back(table);
  REQUIRE(world.run(SetHealthPolicy{policy}, world.root));
  REQUIRE(world.signal(world.device(node), "xid", 48));
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);
  CHECK(world.state.devices.at(world.device(node)).record.signals.back().table_version == "ours-3");
  policy.tables.push_back(table);
  CHECK(world.run(SetHealthPolicy{policy}, world.root).error().message.find("there already") !=
        std::string::npos);
  policy.tables.back().family = "martian";  // No device would ever follow it.
  CHECK(world.run(SetHealthPolicy{policy}, world.root).error().message.find("no family 'martian'") !=
        std::string::npos);
  policy.tables.pop_back();
  policy.breaker_percent = 101;
  CHECK(world.run(SetHealthPolicy{policy}, world.root).error().message == "breaker_percent is 0 to 100");
  policy.breaker_percent = 10;
  policy.tables.front().unknown.action = policy::HealthAction::kIgnore;
  CHECK_FALSE(world.run(SetHealthPolicy{policy}, world.root));
  CHECK_FALSE(world.run(SetHealthPolicy{HealthPolicy{}}, world.ana));
}

TEST_CASE("health: a test on request needs the device to be free") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 2);
  const LeaseId lease = world.running(world.ana, gpus(1));
  const auto decision = world.run(TestNode{node, TestLevel::kStandard}, world.root);
  REQUIRE(decision);
  int ordered = 0;
  for (const Event& event : *decision) ordered += std::holds_alternative<DeviceOrdered>(event);
  CHECK(ordered == 1);
  CHECK_FALSE(world.state.leases.at(lease).revoked);
  CHECK_FALSE(world.run(TestNode{node, TestLevel::kQuick}, world.ana));
}

TEST_CASE("health: a test on request does not shorten the one that a repair asks for") {
  Fleet world;
  const NodeId node = world.fit("gpu-01", 1);
  REQUIRE(world.signal(world.device(node), "xid", 54));
  REQUIRE(world.run(ChangeRepair{.id = 1, .to = RepairState::kReturned}, world.root));
  CHECK(world.of(world.device(node)) == DeviceState::kAccepting);
  CHECK(world.state.devices.at(world.device(node)).record.level == TestLevel::kFull);
  REQUIRE(world.run(TestNode{node, TestLevel::kQuick}, world.root));
  CHECK(world.state.devices.at(world.device(node)).record.level == TestLevel::kFull);
  REQUIRE(world.accept(node));
  REQUIRE(world.run(TestNode{node, TestLevel::kQuick}, world.root));
  CHECK(world.state.devices.at(world.device(node)).record.level == TestLevel::kQuick);
}

// Random days: signals, tests, jobs and ends in any order. No lease is ever granted on a device that has not
// passed a test since it was last out of service, and every state follows from the journal alone.
TEST_CASE("health: whatever happens, nobody is placed on an untested device") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Fleet world;
    std::vector<NodeId> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(world.found("gpu-" + std::to_string(10 + i), 2));
    std::map<DeviceId, bool> tested;
    const std::vector<std::int64_t> xids{13, 31, 43, 45, 48, 63, 64, 74, 79, 92, 94, 95, 119, 154, 4242};
    for (int step = 0; step < 300; ++step) {
      world.clock += seconds(random.below(600));
      const NodeId node = nodes[random.below(nodes.size())];
      Decision decision = Events{};
      switch (random.below(7)) {
        case 0:
          decision = world.signal(world.device(node, random.below(2)),
                                  "xid",
                                  xids[random.below(xids.size())],
                                  static_cast<std::int64_t>(random.below(6)));
          break;
        case 1:
        case 2:
          decision =
              world.accept(node, random.below(8) == 0 ? wire::Verdict::kCritical : wire::Verdict::kPass);
          break;
        case 3:
          world.submit(world.ana, gpus(1, static_cast<std::uint32_t>(100 + random.below(900))));
          break;
        case 4:
          for (const auto& [id, lease] : world.state.leases) {
            if (!lease.live() || random.below(3) != 0) continue;
            if (lease.started == Instant{}) {
              decision = world.report(id, LeaseState::kRunning);
            } else {
              decision = world.report(id, LeaseState::kEnded, EndReason::kExited, 1);
            }
            break;
          }
          break;
        case 5:
          for (const auto& [id, lease] : world.state.leases) {
            if (lease.live() || lease.scrubbed) continue;
            decision = world.scrub(id);
            break;
          }
          break;
        default:
          decision = world.run(Tick{});
          break;
      }
      const auto watch = [&](const Events& events) {
        for (const Event& event : events) {
          if (const auto* changed = std::get_if<DeviceStateChanged>(&event))
            tested[changed->id] =
                changed->after == DeviceState::kHealthy || changed->after == DeviceState::kProbation
                    ? changed->tested && changed->scrubbed
                    : tested[changed->id] && changed->after == DeviceState::kSuspect;
          if (const auto* granted = std::get_if<LeaseGranted>(&event))
            for (const Slice& slice : granted->slices) CHECK(tested[slice.device]);
        }
      };
      if (decision) watch(*decision);
      while (world.state.index.capacity->due(world.clock)) {
        const auto pass = world.run(Schedule{});
        REQUIRE(pass);
        watch(*pass);
        if (pass->empty()) break;
      }
    }
    CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
  }
}

}  // namespace
}  // namespace tranche::engine
