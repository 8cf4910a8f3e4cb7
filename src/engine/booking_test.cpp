// SPDX-License-Identifier: Apache-2.0
#include "engine/booking.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "engine/device_life.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

struct Library : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");
  Instant start = clock;

  Decision book(PartyId who, Ask ask, Duration in, Duration length, Duration every = {}, int times = 1) {
    BookWindows command{.ask = std::move(ask), .zone = "UTC"};
    for (int i = 0; i < times; ++i)
      command.windows.push_back({start + in + i * every, start + in + i * every + length});
    return run(command, who);
  }
  const Booking& booking(std::uint64_t number = 1) { return state.bookings.at({number}); }
  const Job& job(JobId id) { return state.jobs.at(id); }
  void at(Duration since_start) {
    clock = start + since_start;
    schedule();
  }
  void end(LeaseId id, EndReason reason, int code = 0) {
    REQUIRE(report(id, LeaseState::kEnded, reason, code).has_value());
    REQUIRE(scrub(id).has_value());
    schedule();
  }
  Ask labelled(Ask ask, std::uint64_t number = 1) {
    ask.labels["booking"] = text(ClaimId{number});
    return ask;
  }
};

Ask timed(Ask ask, Duration time) {
  ask.time = time;
  return ask;
}
Ask preemptible(Ask ask) {
  ask.preemptible = true;
  return ask;
}

TEST_CASE("booking: what is booked cannot be booked again, and the nearest windows that fit are named") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 2h, 3h).has_value());
  const auto refused = world.book(world.bo, gpus(1), 3h, 1h);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kConflict);
  CHECK(refused.error().rule == "calendar");
  CHECK(refused.error().fix == "nearest that fit: " + text(world.start + 1h) + '/' + text(world.start + 2h) +
                                   ", " + text(world.start + 5h) + '/' + text(world.start + 6h));
  CHECK(world.book(world.bo, gpus(1), 5h, 1h).has_value());
  CHECK(world.book(world.bo, gpus(1), 1h, 1h).has_value());
}

TEST_CASE("booking: halves of a device are sold to the same tenant, and never to strangers") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1, 500), 2h, 2h).has_value());
  CHECK_FALSE(world.book(world.bo, gpus(1, 500), 2h, 2h).has_value());
  REQUIRE(world.book(world.ana, gpus(1, 500), 3h, 2h).has_value());
  CHECK_FALSE(world.book(world.ana, gpus(1, 100), 3h, 1h).has_value());
  CHECK(world.book(world.ana, gpus(1, 500), 4h, 1h).has_value());
}

TEST_CASE("booking: quotas bound length, lead and how much at once, at every level") {
  Library world;
  world.node("a", 4);
  Quota tenant;
  tenant.reservation_length_max = 4h;
  tenant.reservation_lead_max = 48h;
  tenant.gpu_milli = at_most(2000);
  REQUIRE(world.limit(world.acme, tenant).has_value());
  CHECK(world.book(world.ana, gpus(1), 2h, 5h).error().rule == "reservation_length_max");
  CHECK(world.book(world.ana, gpus(1), 49h, 1h).error().rule == "reservation_lead_max");
  CHECK(world.book(world.ana, gpus(1), 49h, 1h).error().where == "acme");
  REQUIRE(world.book(world.ana, gpus(2), 2h, 2h).has_value());
  CHECK(world.book(world.ana, gpus(1), 3h, 2h).error().rule == "gpu_milli");
  CHECK(world.book(world.ana, gpus(1), 4h, 2h).has_value());

  BookWindows endless{.ask = gpus(1), .recurrence = "FREQ=DAILY", .open_ended = true};
  for (int day = 1; day < 10; ++day)
    endless.windows.push_back({world.start + day * 24h - 2h, world.start + day * 24h - 1h});
  REQUIRE(world.run(endless, world.ana).has_value());
  CHECK(world.booking(3).windows.size() == 2);
}

TEST_CASE("booking: an environment that no node offers is refused, and matched where one does") {
  Library world;
  world.node("a", 1);
  const NodeId second = world.node("b", 1);
  BookWindows command{.ask = gpus(1), .windows = {{world.start + 1h, world.start + 2h}}};
  command.environment.layer = wire::Layer::kSlurm;
  CHECK(world.run(command, world.ana).error().rule == "environment");
  REQUIRE(world.run(ChangeNode{.id = second, .labels = {{"layers", "slurm,kubernetes"}}}, world.root));
  REQUIRE(world.run(command, world.ana).has_value());
  CHECK(world.booking().windows[0].places[0].node == second);
  command.environment.driver = "999";
  CHECK(world.run(command, world.ana).error().rule == "environment");
  command.ask.model = "B200";
  CHECK(world.run(command, world.ana).error().rule == "no_such_device");
  command.environment = {};
  command.ask.model = "L4";
  CHECK(world.run(command, world.ana).error().fix == "tranche gpus shows what there is");
  world.node("sim-a", 1, "L4");
  CHECK(world.run(command, world.ana).error().fix == "simulated devices take bookings that say --simulated");
}

TEST_CASE("slots: work that could not be gone in time is not put on booked devices") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 2h, 1h).has_value());
  const JobId endless = world.submit(world.bo, gpus(1));
  const JobId too_long = world.submit(world.bo, timed(gpus(1), 3h));
  world.schedule();
  CHECK(world.job(endless).state == JobState::kPending);
  CHECK(explain(world.state, {world.bo}, world.job(endless)).reason == wire::WaitReason::kBooking);
  CHECK(world.job(too_long).state == JobState::kPending);
  const JobId brief = world.submit(world.bo, timed(gpus(1), 90min));
  world.schedule();
  CHECK(world.job(brief).state == JobState::kStarting);
}

TEST_CASE("slots: beside half a device that is booked, the other half is used by whoever may share it") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1, 500), 2h, 1h).has_value());
  const JobId first = world.submit(world.ana, gpus(1, 300));
  const JobId second = world.submit(world.ana, gpus(1, 300));
  world.schedule();
  CHECK(world.job(first).state == JobState::kStarting);
  CHECK(world.job(second).state == JobState::kPending);
  world.at(2h);
  CHECK_FALSE(world.state.leases.at(world.job(first).leases[0]).revoked);
  CHECK(world.job(second).state == JobState::kStarting);  // In the window.
  CHECK(world.state.leases.at(world.job(second).leases[0]).booking == ClaimId{1});
}

TEST_CASE("slots: what is in the way leaves in time, and the owner's job starts when the window opens") {
  Library world;
  world.node("a", 1);
  const JobId guest = world.submit(world.bo, preemptible(gpus(1)));
  world.schedule();
  const LeaseId lease = world.job(guest).leases[0];
  REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
  REQUIRE(world.book(world.ana, gpus(1), 2h, 1h).has_value());
  const JobId own = world.submit(world.ana, world.labelled(gpus(1)));
  world.at(2h - 51s);
  CHECK_FALSE(world.state.leases.at(lease).revoked);
  CHECK_FALSE(schedule_due(world.state, world.start + 2h - 50s - 1us));
  CHECK(schedule_due(world.state, world.start + 2h - 50s));
  world.at(2h - 50s);
  CHECK(world.state.leases.at(lease).revoke_reason == EndReason::kWindowClosed);
  world.end(lease, EndReason::kWindowClosed);
  CHECK(world.job(guest).state == JobState::kPending);
  CHECK(world.job(own).state == JobState::kPending);
  CHECK(explain(world.state, {world.ana}, world.job(own)).reason == wire::WaitReason::kWindow);
  world.at(2h);
  CHECK(world.booking().windows[0].state == WindowState::kOpen);
  CHECK(world.job(own).state == JobState::kStarting);
  CHECK(world.job(guest).state == JobState::kPending);
}

TEST_CASE("slots: a guest that lingers delays the window's job, and nobody else gets its place") {
  Library world;
  world.node("a", 1);
  const JobId guest = world.submit(world.bo, preemptible(gpus(1)));
  world.schedule();
  REQUIRE(world.book(world.ana, gpus(1), 2h, 1h).has_value());
  const JobId own = world.submit(world.ana, gpus(1));
  const JobId other = world.submit(world.bo, preemptible(gpus(1)));
  world.at(2h);
  CHECK(world.job(own).state == JobState::kPending);
  world.clock += 1min;
  world.end(world.job(guest).leases[0], EndReason::kWindowClosed);
  CHECK(world.job(own).state == JobState::kStarting);
  CHECK(world.job(other).state == JobState::kPending);
}

TEST_CASE("slots: a job spans windows: it is told, saved, and goes on in the next") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 1h, 1h, 24h, 3).has_value());
  const JobId own = world.submit(world.ana, world.labelled(gpus(1)));
  for (int day = 0; day < 3; ++day) {
    CAPTURE(day);
    world.at(day * 24h + 1h);
    REQUIRE(world.job(own).state == JobState::kStarting);
    const LeaseId lease = world.job(own).leases[0];
    REQUIRE(world.report(lease, LeaseState::kRunning).has_value());
    world.at(day * 24h + 2h - 31s);
    CHECK_FALSE(world.state.leases.at(lease).revoked);
    world.at(day * 24h + 2h - 30s);
    CHECK(world.state.leases.at(lease).revoke_reason == EndReason::kWindowClosed);
    world.end(lease, EndReason::kWindowClosed);
    CHECK(world.job(own).state == JobState::kPending);  // Not again in what is left of this window.
    world.at(day * 24h + 2h);
    CHECK(world.booking().windows[static_cast<std::size_t>(day)].state == WindowState::kClosed);
  }
  CHECK(world.booking().state == BookingState::kOver);
  CHECK(world.job(own).state == JobState::kStarting);  // No window is left: it goes on like any other.
  CHECK(world.job(own).attempts == 4);
}

TEST_CASE("slots: a job that does not listen is ended with its window") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 1h, 1h).has_value());
  const JobId own = world.submit(world.ana, gpus(1));
  world.schedule();
  CHECK(world.job(own).state == JobState::kPending);
  world.at(1h);
  const JobId next = world.submit(world.bo, gpus(1));
  world.at(2h);  // Nobody looked in between.
  CHECK(world.state.leases.at(world.job(own).leases[0]).revoked);
  CHECK(world.job(next).state == JobState::kPending);
  world.end(world.job(own).leases[0], EndReason::kWindowClosed);
  CHECK(world.job(own).state != world.job(next).state);
}

TEST_CASE("slots: several jobs of a unit fill a booked device, strangers stay out") {
  Library world;
  world.node("a", 1);
  const PartyId cy = world.user(world.acme, "cy");
  BookWindows command{.owner = world.acme, .ask = gpus(1), .windows = {{world.start + 1h, world.start + 3h}}};
  REQUIRE(world.run(command, world.root).has_value());
  world.at(1h);
  const JobId first = world.submit(world.ana, gpus(1, 400));
  const JobId second = world.submit(cy, gpus(1, 400));
  const JobId third = world.submit(cy, gpus(1, 400));
  const JobId stranger = world.submit(world.bo, gpus(1, 100));
  world.schedule();
  CHECK(world.job(first).state == JobState::kStarting);
  CHECK(world.job(second).state == JobState::kStarting);
  CHECK(world.job(third).state == JobState::kPending);
  CHECK(world.job(stranger).state == JobState::kPending);
  world.end(world.job(first).leases[0], EndReason::kExited);
  CHECK(world.job(third).state == JobState::kStarting);
}

TEST_CASE("slots: a cancelled booking gives everything back") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 1h, 5h).has_value());
  const JobId own = world.submit(world.ana, gpus(1));
  world.at(1h);
  CHECK(world.run(CancelBooking{{1}}, world.bo).error().reason == Reason::kNotFound);
  REQUIRE(world.run(CancelBooking{{1}}, world.ana).has_value());
  CHECK(world.state.leases.at(world.job(own).leases[0]).revoked);
  CHECK(world.state.index.calendar->empty());
  CHECK(world.run(CancelBooking{{1}}, world.ana).error().rule == "ended");
  world.end(world.job(own).leases[0], EndReason::kWindowClosed);
  CHECK(world.job(own).state == JobState::kStarting);
}

TEST_CASE("slots: a clock that jumps neither extends nor cuts a booking") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 10h, 2h).has_value());
  REQUIRE(world.book(world.ana, gpus(1), 20h, 2h).has_value());
  world.at(11h);  // Late: it opens at once, and still ends when it was to end.
  CHECK(world.booking(1).windows[0].state == WindowState::kOpen);
  world.at(12h - 1us);
  CHECK(world.booking(1).windows[0].state == WindowState::kOpen);
  world.at(12h);
  CHECK(world.booking(1).windows[0].state == WindowState::kClosed);
  world.at(30h);  // Past the whole of the second.
  CHECK(world.booking(2).state == BookingState::kOver);
  CHECK(world.state.index.calendar->empty());
}

TEST_CASE("slots: maintenance is a claim like any other") {
  Library world;
  const NodeId node = world.node("a", 2);
  const PlanMaintenance plan{.node = node, .windows = {{world.start + 2h, world.start + 3h}}};
  CHECK(world.run(plan, world.ana).error().reason == Reason::kForbidden);
  REQUIRE(world.book(world.ana, gpus(1), 150min, 1h).has_value());
  CHECK(world.run(plan, world.root).error().rule == "calendar");
  REQUIRE(world.run(CancelBooking{{1}}, world.ana).has_value());
  const JobId guest = world.submit(world.bo, gpus(1));
  world.schedule();
  REQUIRE(world.run(plan, world.root).has_value());
  CHECK_FALSE(world.book(world.ana, gpus(1), 150min, 1h).has_value());
  const Lease& lease = world.state.leases.at(world.job(guest).leases[0]);
  const Device& device = world.state.devices.at(lease.slices.front().device);
  const Duration tests = 1min;  // Part of the window, and over at once when they pass sooner.
  const std::string ends = text(world.start + 3h + tests) + ": maintenance of a";
  CHECK(health_words(world.state, device)
            .ends_with("; maintenance from " + text(world.start + 2h) + " to " + ends));
  world.at(2h);
  CHECK(lease.revoked);
  CHECK(health_words(world.state, device) == "planned maintenance, ends " + ends);
  world.end(world.job(guest).leases[0], EndReason::kWindowClosed);
  CHECK(world.job(guest).state == JobState::kPending);
  world.at(3h);
  CHECK(world.job(guest).state == JobState::kStarting);
}

TEST_CASE("slots: a window moves when its device is lost") {
  Library world;
  const NodeId first = world.node("a", 1);
  const NodeId second = world.node("b", 1);
  REQUIRE(world.book(world.ana, gpus(1), 2h, 1h).has_value());
  const NodeId booked = world.booking().windows[0].places[0].node;
  const NodeId other = booked == first ? second : first;
  REQUIRE(world.run(LoseNode{booked, "silent"}).has_value());
  world.at(90min);
  CHECK(world.booking().windows[0].places[0].node == other);
  const JobId own = world.submit(world.ana, gpus(1));
  world.at(2h);
  CHECK(world.job(own).state == JobState::kStarting);
}

TEST_CASE("slots: an open window moves too, long before it ends") {
  Library world;
  const NodeId first = world.node("a", 1);
  const NodeId second = world.node("b", 1);
  REQUIRE(world.book(world.ana, gpus(1), 1h, 12h).has_value());
  world.at(1h);
  const NodeId booked = world.booking().windows[0].places[0].node;
  world.at(2h);
  REQUIRE(world.run(LoseNode{booked, "silent"}).has_value());
  world.schedule();
  CHECK(world.booking().windows[0].places[0].node == (booked == first ? second : first));
  CHECK(world.booking().windows[0].missing_milli == 0);
}

TEST_CASE("slots: a label that names no booking of the owner's is refused") {
  Library world;
  world.node("a", 1);
  REQUIRE(world.book(world.ana, gpus(1), 1h, 1h).has_value());
  SubmitJob command{.ask = world.labelled(gpus(1)), .spec = "{}"};
  CHECK(world.run(command, world.bo).error().rule == "booking");
  CHECK(world.run(command, world.ana).has_value());
}

}  // namespace
}  // namespace tranche::engine
