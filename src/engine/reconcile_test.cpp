// SPDX-License-Identifier: Apache-2.0
// The books of a device's time against a model of our own: a plain list of who held what from when to when.
#include "engine/reconcile.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"
#include "engine/market_world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using wire::CapacityClass;

std::int64_t compute(const DeviceDayUse& day, CapacityClass what) {
  return day.classes[static_cast<std::size_t>(what)].milli;
}

TEST_CASE("reconcile: every second of a day is in one class, cut at midnight") {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId ana = world.user(acme, "ana");
  world.clock = std::chrono::floor<std::chrono::days>(world.clock) + hours(30);  // Six in the morning.
  const NodeId node = world.node("gpu-01", 1);
  const Device& device = world.state.devices.at(world.state.nodes.at(node).devices.front());
  const Instant began = world.clock;
  world.clock += hours(2);
  const JobId job = world.submit(ana, gpus(1, 250));
  REQUIRE(world.schedule() == 1);
  const LeaseId lease = world.state.jobs.at(job).leases.front();
  world.clock += hours(1);  // Prepared for an hour.
  REQUIRE(world.report(lease, LeaseState::kRunning));
  world.clock += hours(20);  // Over midnight.
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  world.clock += hours(1);
  REQUIRE(world.scrub(lease));
  world.clock += hours(1);
  REQUIRE(world.run(Tick{}));
  const Instant midnight = std::chrono::floor<std::chrono::days>(began);
  const auto days = device_days(world.state, device, midnight, midnight + std::chrono::days(2));
  REQUIRE(days.size() == 2);
  constexpr std::int64_t kHour = 3'600'000'000;
  CHECK(compute(days[0], CapacityClass::kHeldUnused) == 250 * kHour);
  CHECK(compute(days[0], CapacityClass::kOwn) == 250 * 15 * kHour);
  CHECK(compute(days[0], CapacityClass::kIdle) == 2 * 1000 * kHour + 16 * 750 * kHour);
  CHECK(compute(days[1], CapacityClass::kOwn) == 250 * 5 * kHour);
  CHECK(compute(days[1], CapacityClass::kScrub) == 250 * kHour);
  for (const DeviceDayUse& day : days) CHECK(view_of(world.state, day).exact);
  CHECK(days[0].to == midnight + std::chrono::days(1));
  CHECK(days[0].from == began);
}

TEST_CASE("reconcile: two sums over the classes are what the device had, whatever happens") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    World world;
    const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
    const PartyId ana = world.user(acme, "ana");
    const NodeId node = world.node("gpu-01", 2);
    const Instant began = world.clock;
    Int128 leased = 0;  // Our own count: milli times microseconds between running and ended.
    std::map<LeaseId, Instant> since;
    for (int step = 0; step < 400; ++step) {
      world.clock += seconds(1 + random.below(3000));
      if (random.below(2) == 0) {
        Ask ask = gpus(1, static_cast<std::uint32_t>(1 + random.below(1000)));
        ask.vram_each = static_cast<std::int64_t>(random.below(40'000'000'000));
        world.submit(ana, ask);
        world.schedule();
      }
      std::vector<LeaseId> live;
      for (const auto& [id, lease] : world.state.leases)
        if (lease.holds_slices()) live.push_back(id);
      if (live.empty()) continue;
      const LeaseId id = live[random.below(live.size())];
      const Lease& lease = world.state.leases.at(id);
      if (!lease.live()) {
        REQUIRE(world.scrub(id));
      } else if (lease.started == Instant{}) {
        REQUIRE(world.report(id, LeaseState::kRunning));
        since[id] = world.clock;
      } else {
        leased += Int128{lease.gpu_milli()} * (world.clock - since[id]).count();
        since.erase(id);
        REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited));
      }
      if (random.below(40) == 0)
        REQUIRE(world.run(ChangeNode{.id = node, .cordoned = random.below(2) == 0}, world.root));
    }
    for (const auto& [id, at] : since)
      leased += Int128{world.state.leases.at(id).gpu_milli()} * (world.state.now - at).count();
    Int128 own = 0;
    for (const DeviceId id : world.state.nodes.at(node).devices) {
      Duration known{};
      for (const DeviceDayUse& day :
           device_days(world.state, world.state.devices.at(id), began - hours(24), world.clock + hours(24))) {
        const wire::DeviceDay view = view_of(world.state, day);
        CHECK(view.exact);
        own += compute(day, CapacityClass::kOwn);
        known += day.to - day.from;
      }
      CHECK(known == world.state.now - began);
    }
    CHECK(own == leased);
  }
}

// What contracts say was paid for and delivered: thousandths times microseconds.
Int128 delivered(const State& state) {
  Int128 sum = 0;
  for (const std::uint64_t id : state.market.contracts.ids()) {
    const Contract& contract = *state.market.contracts.find(id);
    const Instant end = std::clamp(state.now, contract.start, contract.end);
    const Duration down = contract.down_since == Instant{} ? Duration{} : end - contract.down_since;
    sum += Int128{contract.quantity} *
           (end - contract.start - contract.lost - std::max(down, Duration{})).count();
  }
  return sum;
}

TEST_CASE("reconcile: what was sold is a class of its own, for as long as it is paid, used or not") {
  MarketWorld world;
  const NodeId node = world.node("a", 1);
  const DeviceId gpu = world.device(0);
  const std::int64_t slot = world.now_slot() + 1;
  const Instant start = start_of(slot);
  REQUIRE(world.list(0, gpu, 10, slot, 8));
  REQUIRE(world.run(world.bid(1, 10, slot, 8, 1000, TimeInForce::kFok), world.traders[1]));
  world.clock = start + std::chrono::minutes(20);  // Nobody looked at the clock when the window opened.
  world.schedule();
  const JobId job = world.submit(world.traders[1], gpus(1));
  world.schedule();
  const LeaseId lease = world.state.jobs.at(job).leases.front();
  world.clock += std::chrono::minutes(5);
  REQUIRE(world.report(lease, LeaseState::kRunning));
  world.clock += std::chrono::minutes(30);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(lease));
  SUBCASE("to its end") {
    world.clock = start + hours(3);
  }
  SUBCASE("until its node is lost") {
    world.clock += std::chrono::minutes(10);
    REQUIRE(world.run(LoseNode{.id = node}));
    world.clock += std::chrono::minutes(5);
  }
  world.schedule();
  REQUIRE(world.run(Tick{}));
  Int128 sold = 0;
  Int128 other = 0;
  const Device& device = world.state.devices.at(gpu);
  for (const DeviceDayUse& day : device_days(world.state, device, start - hours(48), start + hours(48))) {
    CHECK(view_of(world.state, day).exact);
    sold += compute(day, CapacityClass::kSold);
    other += compute(day, CapacityClass::kOwn) + compute(day, CapacityClass::kLent) +
             compute(day, CapacityClass::kHeldUnused) + compute(day, CapacityClass::kScrub);
  }
  CHECK(sold == delivered(world.state));
  CHECK(sold > 0);
  CHECK(other == 0);
}

TEST_CASE("reconcile: a booked window is held, by the part that nothing runs in") {
  MarketWorld world;
  const NodeId node = world.node("a", 1);
  const Device& device = world.state.devices.at(world.state.nodes.at(node).devices.front());
  const Instant start = world.clock + hours(1);
  REQUIRE(
      world.run(BookWindows{.ask = gpus(1, 500), .windows = {{start, start + hours(4)}}}, world.traders[1]));
  world.clock = start + hours(1);
  world.schedule();
  const JobId job = world.submit(world.traders[1], gpus(1, 500));
  world.schedule();
  const LeaseId lease = world.state.jobs.at(job).leases.front();
  REQUIRE(world.state.leases.at(lease).booking != ClaimId{});
  REQUIRE(world.report(lease, LeaseState::kRunning));
  world.clock += hours(2);
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  REQUIRE(world.scrub(lease));
  world.clock = start + hours(5);
  world.schedule();
  REQUIRE(world.run(Tick{}));
  Int128 held = 0;
  Int128 used = 0;
  for (const DeviceDayUse& day : device_days(world.state, device, start - hours(48), start + hours(48))) {
    CHECK(view_of(world.state, day).exact);
    held += compute(day, CapacityClass::kHeldUnused);
    used += compute(day, CapacityClass::kOwn) + compute(day, CapacityClass::kLent);
  }
  constexpr std::int64_t kHour = 3'600'000'000;
  CHECK(held == Int128{500} * 2 * kHour);
  CHECK(used == Int128{500} * 2 * kHour);
}

}  // namespace
}  // namespace tranche::engine
