// SPDX-License-Identifier: Apache-2.0
// A node that lies (row S13 of the table of attacks): it speaks for nobody but itself, and makes nothing
// larger than it can be.
#include <doctest/doctest.h>
#include <limits>

#include "engine/cost.hpp"
#include "engine/market_world.hpp"
#include "engine/snapshot.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

struct TwoNodes : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId honest = node("honest", 1);
  LeaseId lease = start();
  NodeId liar = node("liar", 1);

  LeaseId start() {
    const JobId job = submit(ana, gpus(1, 500));
    TRANCHE_CHECK(schedule() == 1);
    const LeaseId made = state.jobs.at(job).leases.front();
    TRANCHE_CHECK(report(made, LeaseState::kRunning).has_value());
    return made;
  }
  [[nodiscard]] const Lease& victim() const { return state.leases.at(lease); }
  [[nodiscard]] wire::MeterRecord record(std::int64_t busy, std::uint64_t sequence) const {
    return {.lease = lease,
            .epoch = victim().epoch,
            .sequence = sequence,
            .device = victim().slices.front().device,
            .from = victim().granted,
            .to = clock,
            .device_nanoseconds = busy,
            .vram_byte_seconds = std::numeric_limits<std::int64_t>::max(),
            .energy_millijoules = -5};
  }
};

TEST_CASE("hostile node: what it says of another's lease changes nothing of it") {
  TwoNodes world;
  world.clock += minutes(1);
  const Lease before = world.victim();
  for (const LeaseState state : {LeaseState::kEnded, LeaseState::kLost, LeaseState::kRunning})
    CHECK_FALSE(world.run(ReportLease{
        .node = world.liar,
        .report = {.lease = world.lease, .epoch = before.epoch, .state = state, .at = world.clock}}));
  REQUIRE(world.run(ReportMeters{.node = world.liar, .records = {world.record(1000, 1)}}));
  wire::Receipts receipts;
  const DeviceId device = before.slices.front().device;
  receipts.scrubs.push_back({.device = device,
                             .lease = world.lease,
                             .zeroed = gigabytes(1),
                             .verified = gigabytes(1),
                             .nonzero_bytes = 7});
  receipts.acceptances.push_back(
      {.device = device, .verdict = wire::Verdict::kCritical, .lease = world.lease});
  receipts.behaviours.push_back({.lease = world.lease});
  receipts.limits.push_back({.lease = world.lease});
  REQUIRE(world.run(KeepReceipts{.node = world.liar, .receipts = receipts}));
  REQUIRE(world.run(NoteProgress{
      .node = world.liar,
      .report = {.lease = world.lease, .epoch = before.epoch, .unit = wire::WorkUnit::kStep, .done = 9}}));
  CHECK(world.victim().state == LeaseState::kRunning);
  CHECK(world.victim().use.sequence == 0);
  CHECK(world.victim().use.device_nanoseconds == 0);
  CHECK_FALSE(world.victim().scrubbed);
  CHECK(world.victim().receipts.empty());
  CHECK_FALSE(world.victim().behaviour);
  CHECK(world.state.devices.at(device).state == DeviceState::kHealthy);
}

TEST_CASE("hostile node: a signal about another's device is kept as a word, and touches nothing") {
  TwoNodes world;
  const DeviceId device = world.victim().slices.front().device;
  wire::HealthSignal signal{
      .uuid = world.state.devices.at(device).facts.uuid, .source = "xid", .code = 48, .at = world.clock};
  REQUIRE(world.run(NoteHealth{.node = world.liar, .signal = signal}));
  CHECK(world.state.devices.at(device).state == DeviceState::kHealthy);
  CHECK(world.victim().state == LeaseState::kRunning);
  CHECK_FALSE(world.victim().revoked);
  CHECK(world.state.devices.at(device).record.signals.empty());
  REQUIRE(world.run(NoteHealth{.node = world.honest, .signal = signal}));  // From its own node it counts.
  CHECK(world.state.devices.at(device).record.signals.size() == 1);
}

TEST_CASE("hostile node: no use is larger than the time since the grant, however it is told") {
  TwoNodes world;
  world.clock += minutes(10);
  const std::int64_t most = std::chrono::nanoseconds(world.clock - world.victim().granted).count();
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  REQUIRE(world.run(
      ReportMeters{.node = world.honest,
                   .records = {world.record(most / 2, 1), world.record(kHuge, 2), world.record(kHuge, 3)}}));
  CHECK(world.victim().use.device_nanoseconds == most);
  CHECK(world.victim().use.vram_byte_seconds == gigabytes(80).count * (most / 1'000'000'000));
  CHECK(world.victim().use.energy_millijoules == 0);
  REQUIRE(world.run(ReportMeters{.node = world.honest, .records = {world.record(kHuge, 4)}}));
  CHECK(world.victim().use.device_nanoseconds == most);
  REQUIRE(world.run(ReportMeters{.node = world.honest, .records = {world.record(-kHuge, 5)}}));
  CHECK(world.victim().use.device_nanoseconds == most);
  world.clock += hours(1);  // What is true goes on to count.
  REQUIRE(world.run(ReportMeters{.node = world.honest, .records = {world.record(1'000'000'000, 6)}}));
  CHECK(world.victim().use.device_nanoseconds == most + 1'000'000'000);
}

}  // namespace
}  // namespace tranche::engine
