// SPDX-License-Identifier: Apache-2.0
// Whole devices between two tenants: wiped and proven clean, unless it is the same tenant again.
#include "engine/handover.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/device_life.hpp"
#include "engine/snapshot.hpp"
#include "engine/world.hpp"
#include "wire/health_codes.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

struct TwoTenants : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  PartyId beta = create(PartyKind::kTenant, kPlatform, "beta");
  PartyId bob = user(beta, "bob");

  LeaseId running(PartyId user, const Ask& ask) {
    const JobId job = submit(user, ask);
    TRANCHE_CHECK(schedule() > 0);
    const LeaseId lease = state.jobs.at(job).leases.front();
    TRANCHE_CHECK(report(lease, LeaseState::kRunning).has_value());
    return lease;
  }
  Decision end(LeaseId lease) { return report(lease, LeaseState::kEnded, EndReason::kExited); }
  [[nodiscard]] const Device& device_of(LeaseId lease) const {
    return state.devices.at(state.leases.at(lease).slices.front().device);
  }
  [[nodiscard]] JobState of(JobId job) const { return state.jobs.at(job).state; }
};

TEST_CASE("handover: a whole device is wiped when its tenant leaves, and nobody gets it before the receipt") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  const Device& device = world.device_of(lease);
  REQUIRE(world.end(lease));
  CHECK(device.state == DeviceState::kScrubbing);
  CHECK(health_words(world.state, device) == "preparing: being wiped and tested");
  CHECK(device.record.task == DeviceTask::kWipe);  // Before anybody waits.
  CHECK_FALSE(world.state.leases.at(lease).holds_slices());
  const JobId next = world.submit(world.bob, gpus(1));
  CHECK(world.schedule() == 0);
  wire::Receipts of_another;  // A receipt of something else proves nothing.
  of_another.scrubs.push_back(
      {.device = device.id, .lease = {999}, .zeroed = gigabytes(1), .verified = gigabytes(1)});
  REQUIRE(world.run(KeepReceipts{.node = node, .receipts = of_another}));
  CHECK(device.state == DeviceState::kScrubbing);
  REQUIRE(world.accept(node));  // The node answers.
  CHECK(device.state == DeviceState::kHealthy);
  CHECK(device.record.order == 0);
  CHECK(world.state.leases.at(lease).receipts.size() == 1);  // The proof goes with the lease.
  CHECK(world.schedule() == 1);
  CHECK(world.of(next) == JobState::kStarting);
}

TEST_CASE("handover: the same tenant goes on at once, and nobody else gets what was not wiped") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId first = world.running(world.ana, gpus(1));
  const Device& device = world.device_of(first);
  const JobId second = world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 0);
  REQUIRE(world.end(first));
  CHECK(device.state == DeviceState::kHealthy);
  CHECK(device.record.kept_for == world.acme);
  CHECK(device.record.order == 0);
  CHECK(world.schedule() == 1);
  CHECK(world.of(second) == JobState::kStarting);
  CHECK(world.state.leases.at(first).kept);
  CHECK(device.record.kept_for == PartyId{});
  // When nobody of the tenant waits, the wipe is due for all that it left.
  const LeaseId last = world.state.jobs.at(second).leases.front();
  const JobId other = world.submit(world.bob, gpus(1));
  REQUIRE(world.report(last, LeaseState::kRunning));
  REQUIRE(world.end(last));
  CHECK(device.state == DeviceState::kScrubbing);
  CHECK(world.schedule() == 0);
  REQUIRE(world.accept(node));
  CHECK(world.schedule() == 1);
  CHECK(world.of(other) == JobState::kStarting);
}

TEST_CASE("handover: a device that was freed for another job of its tenant goes to that job unwiped") {
  TwoTenants world;
  world.node("gpu-01", 1);
  Ask yielding = gpus(1);
  yielding.preemptible = true;
  const LeaseId first = world.running(world.ana, yielding);
  Ask urgent = gpus(1);
  urgent.priority = 90;
  const JobId mine = world.submit(world.ana, urgent);
  CHECK(world.schedule() == 0);
  REQUIRE(world.state.leases.at(first).promised_to == mine);
  REQUIRE(world.report(first, LeaseState::kEnded, EndReason::kPreempted));
  CHECK(world.device_of(first).state == DeviceState::kHealthy);
  CHECK(world.schedule() == 1);
  CHECK(world.of(mine) == JobState::kStarting);
  // For somebody else it is wiped.
  TwoTenants other;
  other.node("gpu-01", 1);
  const LeaseId theirs = other.running(other.ana, yielding);
  other.submit(other.bob, urgent);
  other.submit(other.ana, gpus(1));
  CHECK(other.schedule() == 0);
  REQUIRE(other.report(theirs, LeaseState::kEnded, EndReason::kPreempted));
  CHECK(other.device_of(theirs).state == DeviceState::kScrubbing);
}

TEST_CASE("handover: what was kept for a tenant whose turn it is not is wiped for the one whose turn it is") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId first = world.running(world.ana, gpus(1));
  Ask urgent = gpus(1);
  urgent.priority = 90;
  const JobId mine = world.submit(world.ana, gpus(1));
  const JobId theirs = world.submit(world.bob, urgent);
  REQUIRE(world.end(first));
  CHECK(world.device_of(first).record.kept_for == world.acme);
  const auto pass = world.run(Schedule{});
  REQUIRE(pass);
  for (const Event& event : *pass) CHECK_FALSE(std::holds_alternative<LeaseGranted>(event));
  CHECK(world.device_of(first).state == DeviceState::kScrubbing);
  REQUIRE(world.accept(node));
  CHECK(world.schedule() == 1);
  CHECK(world.of(theirs) == JobState::kStarting);
  CHECK(world.of(mine) == JobState::kPending);
}

TEST_CASE("handover: a fault between two tenants is not forgotten by the wipe") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  REQUIRE(world.end(lease));
  const Device& device = world.device_of(lease);
  const auto signal = [&](std::string source, std::int64_t code) {
    return world.run(NoteHealth{
        .node = node,
        .signal = {.uuid = device.facts.uuid, .source = std::move(source), .code = code, .at = world.clock}});
  };
  REQUIRE(signal("xid", 4242));  // Watched: tested as soon as it is back.
  CHECK(device.state == DeviceState::kScrubbing);
  REQUIRE(world.accept(node));
  CHECK(device.state == DeviceState::kHealthy);
  REQUIRE(world.run(Tick{}));
  CHECK(device.state == DeviceState::kScrubbing);
  CHECK(device.record.task == DeviceTask::kAccept);
  REQUIRE(signal("test", wire::kTestFailed));  // Out at once.
  CHECK(device.state == DeviceState::kQuarantined);
  REQUIRE(world.scrub(lease));
  CHECK(device.state == DeviceState::kQuarantined);
}

TEST_CASE("handover: on a shared device the wipe is a claim on the slice alone") {
  TwoTenants world;
  world.node("gpu-01", 1);
  const LeaseId one = world.running(world.ana, gpus(1, 400));
  const LeaseId two = world.running(world.ana, gpus(1, 400));
  REQUIRE(world.end(one));
  CHECK(world.device_of(one).state == DeviceState::kHealthy);
  CHECK(world.state.leases.at(one).holds_slices());
  CHECK(world.state.leases.at(two).live());
  const JobId next = world.submit(world.ana, gpus(1, 400));
  CHECK(world.schedule() == 0);
  REQUIRE(world.scrub(one));
  CHECK(world.schedule() == 1);
  CHECK(world.of(next) == JobState::kStarting);
}

TEST_CASE("handover: a wipe that fails takes the device out of service") {
  for (const bool dirty : {true, false}) {
    CAPTURE(dirty);
    TwoTenants world;
    const NodeId node = world.node("gpu-01", 1);
    const LeaseId lease = world.running(world.ana, gpus(1));
    REQUIRE(world.end(lease));
    const Device& device = world.device_of(lease);
    wire::ScrubReceipt receipt{.device = device.id, .lease = lease, .zeroed = gigabytes(1)};
    if (dirty) receipt.verified = gigabytes(1);
    receipt.nonzero_bytes = dirty ? 7 : 0;
    REQUIRE(world.run(KeepReceipts{.node = node, .receipts = {.scrubs = {receipt}}}));
    CHECK(device.state == DeviceState::kQuarantined);
    CHECK(world.state.repairs.size() == 1);
    world.submit(world.ana, gpus(1));
    world.submit(world.bob, gpus(1));
    CHECK(world.schedule() == 0);
  }
}

TEST_CASE("handover: a device that fails its test between two tenants goes out of service, clean or not") {
  for (const auto verdict : {wire::Verdict::kCritical, wire::Verdict::kPass}) {
    TwoTenants world;
    const NodeId node = world.node("gpu-01", 1);
    const LeaseId lease = world.running(world.ana, gpus(1));
    REQUIRE(world.end(lease));
    const Device& device = world.device_of(lease);
    wire::Receipts receipts;
    receipts.acceptances.push_back({.device = device.id,
                                    .level = TestLevel::kQuick,
                                    .verdict = verdict,
                                    .tests = {{.name = "compute.burn", .verdict = verdict}},
                                    .lease = lease});
    receipts.scrubs.push_back(
        {.device = device.id, .lease = lease, .zeroed = gigabytes(1), .verified = gigabytes(1)});
    REQUIRE(world.run(KeepReceipts{.node = node, .receipts = receipts}));
    const bool passed = verdict == wire::Verdict::kPass;
    CHECK(device.state == (passed ? DeviceState::kHealthy : DeviceState::kQuarantined));
    const JobId next = world.submit(world.bob, gpus(1));
    CHECK(world.schedule() == (passed ? 1 : 0));
    // The proof of the test stands behind the next lease.
    if (passed) CHECK(world.state.leases.at(world.state.jobs.at(next).leases.front()).tested.size() == 2);
  }
}

TEST_CASE("handover: a part that fails its test between two leases takes the device and its neighbours out") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId one = world.running(world.ana, gpus(1, 400));
  const LeaseId two = world.running(world.ana, gpus(1, 400));
  REQUIRE(world.end(one));
  const Device& device = world.device_of(one);
  wire::Receipts receipts;
  receipts.acceptances.push_back({.device = device.id,
                                  .level = TestLevel::kQuick,
                                  .verdict = wire::Verdict::kCritical,
                                  .tests = {{.name = "memory.random", .verdict = wire::Verdict::kCritical}},
                                  .lease = one});
  REQUIRE(world.run(KeepReceipts{.node = node, .receipts = receipts}));
  CHECK_FALSE(takes_work(device.state));
  CHECK(world.state.leases.at(two).revoke_reason == EndReason::kDeviceFault);
}

TEST_CASE(
    "handover: what a tenant left unwiped on a device of its own is wiped before another is granted it") {
  TwoTenants world;
  Quota quota;
  quota.share_soft = true;
  REQUIRE(world.limit(world.acme, quota));
  REQUIRE(world.limit(world.beta, quota));
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId one = world.running(world.ana, gpus(1, 400));
  const LeaseId two = world.running(world.ana, gpus(1, 400));
  REQUIRE(world.end(one));
  const Device& device = world.device_of(one);
  REQUIRE(world.run(KeepReceipts{
      .node = node, .receipts = {.scrubs = {{.device = device.id, .lease = one, .deferred = true}}}}));
  const JobId mine = world.submit(world.ana, gpus(1, 200));
  CHECK(world.schedule() == 1);  // The same tenant needs no wipe.
  CHECK(world.of(mine) == JobState::kStarting);
  const JobId theirs = world.submit(world.bob, gpus(1, 200));
  const auto pass = world.run(Schedule{});
  REQUIRE(pass);
  for (const Event& event : *pass) CHECK_FALSE(std::holds_alternative<LeaseGranted>(event));
  CHECK(device.record.task == DeviceTask::kSettle);  // The node is asked to pay.
  CHECK(encode_state(*decode_state(encode_state(world.state))) == encode_state(world.state));
  REQUIRE(world.scrub(one));
  CHECK(world.schedule() == 1);
  CHECK(world.of(theirs) == JobState::kStarting);
  CHECK(world.state.leases.at(two).live());
}

TEST_CASE("handover: a node that answers without a receipt has wiped nothing") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  REQUIRE(world.end(lease));
  const Device& device = world.device_of(lease);
  REQUIRE(world.run(KeepReceipts{
      .node = node,
      .receipts = {.outcomes = {{device.record.order, device.id, DeviceTask::kWipe, true, "done"}}}}));
  CHECK(device.state == DeviceState::kQuarantined);
}

TEST_CASE("handover: a node that wiped before it told the end passes through the same door") {
  TwoTenants world;
  world.node("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  REQUIRE(world.scrub(lease));
  const auto ended = world.end(lease);
  REQUIRE(ended);
  bool scrubbing = false;
  for (const Event& event : *ended) {
    const auto* changed = std::get_if<DeviceStateChanged>(&event);
    scrubbing = scrubbing || (changed != nullptr && changed->after == DeviceState::kScrubbing);
  }
  CHECK(scrubbing);
  CHECK(world.device_of(lease).state == DeviceState::kHealthy);
}

TEST_CASE("handover: probation goes on from where it began, however often the device changes hands") {
  TwoTenants world;
  const NodeId node = world.node("gpu-01", 1);
  const DeviceId id = world.state.nodes.at(node).devices.front();
  const Device& device = world.state.devices.at(id);
  REQUIRE(world.run(NoteHealth{.node = node,
                               .signal = {.uuid = device.facts.uuid,
                                          .source = "ecc",
                                          .code = wire::kEccUncorrected,
                                          .value = 1,
                                          .at = world.clock}}));
  REQUIRE(device.state == DeviceState::kResetting);
  REQUIRE(world.accept(node));
  REQUIRE(world.accept(node));
  REQUIRE(device.state == DeviceState::kProbation);
  const Instant began = device.record.watched_since;
  Ask yielding = gpus(1);
  yielding.preemptible = true;
  world.clock += hours(50);
  const LeaseId lease = world.running(world.ana, yielding);
  REQUIRE(world.end(lease));
  REQUIRE(world.accept(node));
  CHECK(device.state == DeviceState::kProbation);
  CHECK(device.record.watched_since == began);
  world.clock += hours(23);
  REQUIRE(world.run(Tick{}));
  CHECK(device.state == DeviceState::kScrubbing);  // Seventy-two hours are over.
}

// Random days, with a witness of its own: who was on each device last, and whether a clean receipt for that
// very lease came since. No other tenant is ever granted it without.
TEST_CASE("handover: whatever happens, no other tenant gets a whole device without a receipt") {
  struct Left {
    PartyId tenant{};
    LeaseId lease{};
    bool clean = true;
  };
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    TwoTenants world;
    for (int i = 0; i < 3; ++i) world.node("gpu-" + std::to_string(10 + i), 2);
    std::map<DeviceId, Left> left;
    const auto watch = [&](const Events& events) {
      for (const Event& event : events) {
        if (const auto* granted = std::get_if<LeaseGranted>(&event)) {
          for (const Slice& slice : granted->slices) {
            if (slice.milli != 1000) continue;
            Left& before = left[slice.device];
            CHECK((before.clean || before.tenant == granted->tenant));
            before = {granted->tenant, granted->id, false};
          }
        }
        if (const auto* kept = std::get_if<ReceiptsKept>(&event))
          for (const wire::ScrubReceipt& scrub : kept->receipts.scrubs) {
            Left& one = left[scrub.device];
            if (wire::is_clean(scrub) && (scrub.lease == one.lease || scrub.lease == LeaseId{}))
              one.clean = true;
          }
      }
    };
    for (int step = 0; step < 250; ++step) {
      world.clock += seconds(random.below(30));
      std::vector<LeaseId> live;
      for (const auto& [id, lease] : world.state.leases)
        if (lease.live()) live.push_back(id);
      const auto node = std::next(world.state.nodes.begin(), static_cast<int>(random.below(3)))->first;
      Decision decision = Events{};
      switch (random.below(5)) {
        case 0:
        case 1:
          world.submit(
              random.below(2) == 0 ? world.ana : world.bob,
              gpus(1 + static_cast<std::uint32_t>(random.below(2)), random.below(3) == 0 ? 500 : 1000));
          break;
        case 2:
          if (!live.empty()) {
            const LeaseId lease = live[random.below(live.size())];
            if (world.state.leases.at(lease).started == Instant{}) {
              decision = world.report(lease, LeaseState::kRunning);
            } else {
              decision = world.end(lease);
            }
          }
          break;
        case 3:
          decision = world.accept(node);
          break;
        default:
          for (const auto& [id, lease] : world.state.leases) {
            if (lease.live() || !lease.holds_slices()) continue;
            decision = world.scrub(id);
            break;
          }
          break;
      }
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
