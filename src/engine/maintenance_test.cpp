// SPDX-License-Identifier: Apache-2.0
// Planned windows and devices: out of service while one is open, and back through a test and a wipe alone.
#include "engine/maintenance.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "engine/device_life.hpp"
#include "engine/fleet_world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using wire::NodeCondition;

// A device that was tested in no time is given a minute: its node has to be told, and to answer.
constexpr Duration kTests = minutes(1);

struct Workshop : Fleet {
  ClaimId plan(NodeId node, Duration in, Duration length) {
    const ClaimId id{state.next_claim};
    const TimeSpan window{clock + in, clock + in + length};
    TRANCHE_CHECK(
        run(PlanMaintenance{.node = node, .name = "new fans", .windows = {window}}, root).has_value());
    return id;
  }
  // Passes, without nodes that answer: what they were asked for stays open.
  void pass() {
    while (schedule_due(state, clock) && !run(Schedule{})->empty()) continue;
  }
  void after(Duration later) {
    clock += later;
    pass();
  }
  [[nodiscard]] NodeCondition condition(NodeId node) const {
    return condition_of(state, state.nodes.at(node));
  }
};

TEST_CASE("maintenance: an open window puts its devices in MAINTENANCE, and they come back through a test") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 2), other = world.fit("gpu-02", 1);
  const DeviceId first = world.device(node, 0), second = world.device(node, 1);
  world.plan(node, hours(1), hours(2));
  world.pass();
  CHECK(world.of(first) == DeviceState::kHealthy);
  world.after(hours(1));
  CHECK(world.of(first) == DeviceState::kMaintenance);
  CHECK(world.of(second) == DeviceState::kMaintenance);
  CHECK(world.of(world.device(other)) == DeviceState::kHealthy);
  CHECK(world.condition(node) == NodeCondition::kMaintenance);
  const Device& device = world.state.devices.at(first);
  CHECK(device.reason == "new fans");
  CHECK(health_words(world.state, device) ==
        "planned maintenance, ends " + text(world.clock + hours(2) + kTests) + ": new fans");
  world.after(hours(2));
  CHECK(world.of(first) == DeviceState::kValidating);
  CHECK(device.record.level == TestLevel::kStandard);
  CHECK(world.condition(node) == NodeCondition::kTesting);
  world.submit(world.ana, gpus(2));
  CHECK(world.schedule() == 0);  // Not before the test.
  REQUIRE(world.accept(node));
  CHECK(world.of(first) == DeviceState::kHealthy);  // It was healthy before, and passed.
  CHECK(world.schedule() == 1);
}

TEST_CASE("maintenance: work is told before the window, and its device waits for it and for its wipe") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 1);
  const LeaseId lease = world.running(world.ana, gpus(1));
  world.plan(node, hours(1), hours(2));
  world.after(hours(1) - minutes(2));
  CHECK_FALSE(world.state.leases.at(lease).revoked);
  world.after(minutes(1) + std::chrono::seconds(30));  // As long before as it takes to save, and to wipe.
  CHECK(world.state.leases.at(lease).revoked);
  world.after(minutes(1));
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);  // Open, and somebody lingers.
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited, 143));
  world.pass();
  CHECK(world.of(world.device(node)) == DeviceState::kScrubbing);
  REQUIRE(world.accept(node));
  world.pass();
  CHECK(world.of(world.device(node)) == DeviceState::kMaintenance);
  CHECK(world.state.jobs.at(world.state.leases.at(lease).job).state == JobState::kPending);
}

TEST_CASE(
    "maintenance: one that fails the test after it goes to repair, and one that was watched is watched on") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 2);
  REQUIRE(world.signal(world.device(node, 1), "xid", 45));  // Watched.
  const ClaimId claim = world.plan(node, hours(1), hours(2));
  world.after(hours(1));
  CHECK(world.of(world.device(node, 1)) == DeviceState::kMaintenance);
  REQUIRE(world.run(CancelBooking{claim}, world.root));  // Cancelled while it is open: back all the same.
  CHECK(world.of(world.device(node, 0)) == DeviceState::kValidating);
  REQUIRE(world.accept(node));
  CHECK(world.of(world.device(node, 0)) == DeviceState::kHealthy);
  CHECK(world.of(world.device(node, 1)) == DeviceState::kProbation);
  world.plan(node, hours(1), hours(2));
  world.after(hours(1));
  world.after(hours(2));
  REQUIRE(world.accept(node, wire::Verdict::kCritical));
  CHECK(world.of(world.device(node, 0)) == DeviceState::kInRepair);
  CHECK(world.state.repairs.size() == 2);
}

TEST_CASE("maintenance: a node that is down for it, and comes back, stays in it until its end") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 1);
  world.plan(node, hours(1), hours(4));
  world.after(hours(1));
  REQUIRE(world.run(LoseNode{node, "switched off"}));
  CHECK(world.of(world.device(node)) == DeviceState::kMaintenance);
  wire::Hello said = Fleet::hello("gpu-01", 1, "H100-SXM5-80GB");
  said.boot_id = "boot-2";
  REQUIRE(world.run(ReportNode{node, said}));
  world.pass();
  CHECK(world.of(world.device(node)) == DeviceState::kMaintenance);
  REQUIRE(world.run(LoseNode{node, "switched off again"}));
  world.after(hours(4));  // Its test waits for it.
  const Device& device = world.state.devices.at(world.device(node));
  CHECK(device.state == DeviceState::kValidating);
  CHECK(device.record.order != 0);
  const std::string waits = "being tested before it comes back, when its node is back";
  CHECK(health_words(world.state, device) ==
        waits + "; planned maintenance, ends " + text(world.clock + kTests) + ": new fans");
  CHECK(world.condition(node) == NodeCondition::kLost);
  world.after(kTests);  // The window is over, and its test is not.
  CHECK(device.state == DeviceState::kValidating);
  CHECK(health_words(world.state, device) == waits);
}

TEST_CASE("maintenance: a booking right behind the window starts on time, for the tests are part of it") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 1);
  const Instant ends = world.clock + hours(3);  // Of the work.
  const ClaimId claim = world.plan(node, hours(1), hours(2));
  const BookedWindow& window = world.state.bookings.at(claim).windows.front();
  REQUIRE(window.to == ends + kTests);
  CHECK(work_ends(world.state.bookings.at(claim), window) == ends);
  world.after(hours(1));
  const auto book = [&](Instant from) {
    return world.run(BookWindows{.owner = world.ana, .ask = gpus(1), .windows = {{from, from + hours(1)}}},
                     world.ana);
  };
  CHECK_FALSE(book(ends - hours(1)));
  CHECK_FALSE(book(ends));  // The device is being tested then.
  REQUIRE(book(ends + kTests));
  const JobId job = world.submit(world.ana, gpus(1));
  world.after(ends - world.clock);
  CHECK(world.of(world.device(node)) == DeviceState::kValidating);
  REQUIRE(world.accept(node));
  world.after(ends + kTests - world.clock);
  CHECK(world.state.jobs.at(job).state == JobState::kStarting);
}

TEST_CASE("maintenance: time that the tests did not need is given back, and what they took is remembered") {
  Workshop world;
  const NodeId node = world.found("gpu-01", 2);
  REQUIRE(world.accept(node));
  for (std::size_t i = 0; i < 2; ++i) {  // One of the two was never tested as thoroughly as that.
    const DeviceId id = world.device(node, i);
    world.state.devices.at(id).record.last_test->level = i == 0 ? TestLevel::kFull : TestLevel::kQuick;
    world.state.devices.at(id).record.last_test->took = minutes(8);
  }
  const ClaimId claim = world.plan(node, hours(1), hours(2));
  CHECK(world.state.bookings.at(claim).ask.time ==
        minutes(17));  // 8 and 5, one after the other, and a quarter.
  Ask patient = gpus(2);
  patient.time = hours(2);  // Could not be gone before it opens.
  const JobId behind = world.submit(world.ana, patient);
  world.after(hours(1));
  CHECK(world.of(world.device(node)) == DeviceState::kMaintenance);
  world.after(hours(2));
  CHECK(world.state.bookings.at(claim).windows.front().state == WindowState::kOpen);
  REQUIRE(world.accept(node));
  world.pass();
  CHECK(world.state.bookings.at(claim).windows.front().state == WindowState::kClosed);
  CHECK(world.state.bookings.at(claim).state == BookingState::kOver);
  CHECK(world.of(world.device(node)) == DeviceState::kHealthy);
  CHECK_FALSE(world.state.jobs.at(behind).leases.empty());
}

TEST_CASE(
    "maintenance: what is booked right behind it, and windows that touch, leave no time for the tests") {
  Workshop world;
  const NodeId node = world.fit("gpu-01", 1);
  const Instant from = world.clock + hours(1), to = from + hours(2);
  REQUIRE(world.run(BookWindows{.owner = world.ana, .ask = gpus(1), .windows = {{to, to + hours(1)}}},
                    world.ana));
  const auto plan = [&](std::vector<TimeSpan> windows) {
    return world.run(PlanMaintenance{.node = node, .windows = std::move(windows)}, world.root);
  };
  const auto refused = plan({{from, to}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "calendar");
  CHECK(refused.error().message.find("its devices are tested after the window, which takes up to 1m") !=
        std::string::npos);
  CHECK(refused.error().fix == "end the window by " + text(to - kTests));
  CHECK(plan({{to - minutes(30), to + minutes(30)}}).error().fix ==
        "choose another time, or cancel that booking first");
  REQUIRE(plan({{from, to - kTests}}));
  const Instant later = to + hours(10);
  CHECK(plan({{later, later + hours(1)}, {later + hours(1), later + hours(2)}}).error().rule == "every");
}

TEST_CASE("maintenance: whatever happens around windows, no device takes work in one, or before its tests") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Workshop world;
    Random random(seed);
    const NodeId node = world.fit("gpu-01", 3);
    std::vector<ClaimId> planned;
    for (int step = 0; step < 120; ++step) {
      const DeviceId id = world.device(node, random.below(3));
      switch (random.below(9)) {
        case 0:
          if (const auto made = world.run(
                  PlanMaintenance{.node = node,
                                  .windows = {{world.clock + minutes(10), world.clock + minutes(70)}}},
                  world.root))
            planned.push_back(std::get<WindowsBooked>(made->front()).id);
          break;
        case 1:
          if (!planned.empty())
            (void)world.run(CancelBooking{planned[random.below(planned.size())]}, world.root);
          break;
        case 2:
          (void)world.signal(id, "xid", random.below(2) == 0 ? 48 : 45);
          break;
        case 3:
          (void)world.submit(random.below(2) == 0 ? world.ana : world.bob,
                             gpus(1, random.below(2) == 0 ? 400 : 1000));
          break;
        case 4:
          for (const auto& [lease_id, lease] : std::map(world.state.leases))
            if (lease.live() && random.below(2) == 0) {
              (void)world.report(lease_id, LeaseState::kEnded, EndReason::kExited);
              if (random.below(2) == 0) (void)world.scrub(lease_id);
            }
          break;
        case 5:
          (void)world.accept(node, random.below(6) == 0 ? wire::Verdict::kWarning : wire::Verdict::kPass);
          break;
        case 6:
          for (const auto& [repair, one] : std::map(world.state.repairs))
            (void)world.run(ChangeRepair{.id = repair, .to = RepairState::kReturned}, world.root);
          break;
        default:
          world.clock += minutes(static_cast<int>(random.below(40)));
          (void)world.run(Tick{});
          break;
      }
      while (schedule_due(world.state, world.clock)) {
        const auto before = world.state.devices;
        const auto decision = world.run(Schedule{});
        for (const Event& event : *decision)
          if (const auto* granted = std::get_if<LeaseGranted>(&event))
            for (const Slice& slice : granted->slices) {
              CAPTURE(seed);
              const Device& device = before.at(slice.device);
              CHECK(takes_work(device.state));
              CHECK(device.record.tested);
              CHECK(device.record.scrubbed);
            }
        if (decision->empty()) break;
      }
      for (const auto& [claim, booking] : world.state.bookings)
        for (const BookedWindow& window : booking.windows)
          if (window.state == WindowState::kOpen)
            for (const auto& [lease_id, lease] : world.state.leases) {
              CAPTURE(seed);
              CHECK((!lease.live() || lease.revoked));  // Nobody is there who was not told to go.
            }
    }
  }
}

}  // namespace
}  // namespace tranche::engine
