// SPDX-License-Identifier: Apache-2.0
// Any day of bookings, maintenance, cancellations and jobs, held against an independent recount.
#include <cstdlib>
#include <doctest/doctest.h>

#include "base/random.hpp"
#include "base/text.hpp"
#include "engine/calendar_recount.hpp"
#include "engine/world.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kStep = 15min;
constexpr Duration kTests = 1min;  // After maintenance, of simulated devices.
constexpr std::int64_t kGib = std::int64_t{1} << 30;

struct Depot : World {
  explicit Depot(std::uint64_t seed) : random(seed), maintained(seed % 3 == 0) {
    for (const PartyId sharing : {globex, initech}) {
      Quota quota;
      quota.share_soft = true;
      REQUIRE(limit(sharing, quota).has_value());
    }
    node("plain", 2);
    node("pair", 2);
    partitionable("cut", 2);
  }

  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId initech = create(PartyKind::kTenant, kPlatform, "initech");
  std::vector<PartyId> people{user(acme, "ana"), user(globex, "bo"), user(initech, "cy")};
  Random random;
  bool maintained;
  std::set<LeaseId> lingering{};

  std::uint32_t draw(std::uint64_t bound) { return static_cast<std::uint32_t>(random.below(bound)); }
  bool one_in(std::uint64_t n) { return random.below(n) == 0; }
  [[nodiscard]] Recount recount() const { return {state, clock}; }
  [[nodiscard]] std::uint32_t group_of(PartyId person) const {
    return trust_group(state, tenant_of(state, person));
  }

  Ask any_ask() {
    const std::uint32_t kind = draw(10);
    Ask ask{.instances = 1, .milli_each = 1000, .vram_each = 80 * kGib};
    if (kind < 5) {
      ask.milli_each = std::array{200U, 300U, 500U, 700U}[draw(4)];
      ask.vram_each = std::array{8, 16, 32}[draw(3)] * kGib;
    } else if (kind < 8) {
      ask.isolation = Isolation::kDedicated;
      ask.instances = 1 + draw(2);
    } else {
      ask.isolation = Isolation::kHard;
      ask.profile = std::array{"1g.10gb", "2g.20gb", "3g.40gb", "1g.10gb+me", "1g.20gb"}[draw(5)];
      ask.milli_each = 143;
      ask.instances = 1 + draw(2);
    }
    return ask;
  }
  std::vector<TimeSpan> any_windows() {
    const Duration length = kStep * (1 + draw(24));
    const Instant first = clock + kStep * draw(96);
    std::vector<TimeSpan> windows{{first, first + length}};
    if (one_in(4))
      for (std::uint32_t day = draw(4); day > 0; --day)
        windows.push_back({windows.back().from + 24h, windows.back().to + 24h});
    return windows;
  }

  // Booked exactly when it fits by the recount; else the nearest that fits is named, and none is nearer.
  void book() {
    const PartyId person = people[draw(3)];
    const BookWindows command{.ask = any_ask(), .windows = any_windows(), .zone = "UTC"};
    const std::uint32_t group = group_of(person);
    const TimeSpan* taken = nullptr;
    for (const TimeSpan& span : command.windows)
      if (taken == nullptr && !recount().fits(command.ask, group, span)) taken = &span;
    const auto nearest = taken == nullptr ? std::vector<TimeSpan>{} : nearest_to(command, group, *taken);
    const Decision decision = run(command, person);
    CAPTURE(command.ask.profile);
    CAPTURE(command.ask.instances);
    CAPTURE(command.ask.milli_each);
    REQUIRE_MESSAGE(decision.has_value() == (taken == nullptr),
                    (decision ? "booked beside what was there" : decision.error().message));
    if (taken == nullptr) return;
    REQUIRE(decision.error().rule == "calendar");
    const auto expected = recount().nearest(command.ask, group, *taken, clock + 24h * 8);
    REQUIRE(nearest.empty() == !expected);
    for (const TimeSpan& span : nearest) {
      CHECK(recount().fits(command.ask, group, span));
      CHECK(decision.error().fix.find(text(span.from)) != std::string::npos);
    }
    if (expected) CHECK(distance(nearest.front().from, taken->from) == *expected);
  }
  std::vector<TimeSpan> nearest_to(const BookWindows& command,
                                   std::uint32_t group,
                                   const TimeSpan& span) const {
    return nearest_windows(state, clock, {command.ask, group, command.environment, span});
  }
  static Duration distance(Instant a, Instant b) { return a < b ? b - a : a - b; }

  // Of any kind, by anybody, at any time of the next two months. What is refused has no room.
  bool book_ahead() {
    BookWindows command{.ask = any_ask(), .zone = "UTC"};
    const Instant from = clock + kStep * draw(4 * 24 * 60);
    command.windows.push_back({from, from + kStep * (1 + draw(24))});
    const PartyId person = people[draw(3)];
    const Decision decision = run(command, person);
    if (decision) return true;
    REQUIRE(decision.error().rule == "calendar");
    if (one_in(64)) CHECK_FALSE(recount().fits(command.ask, group_of(person), command.windows.front()));
    return false;
  }

  void maintain() {
    const auto& node = std::next(state.nodes.begin(), draw(state.nodes.size()))->second;
    const Instant from = clock + kStep * (4 + draw(60));
    const TimeSpan span{from, from + kStep * (1 + draw(12))};
    bool free = true;
    for (const DeviceId device : node.devices)
      for (const Recount::Piece& one : recount().claimed(state.devices.at(device)))
        free = free && (one.from >= span.to + kTests || one.to <= span.from);
    CHECK(run(PlanMaintenance{.node = node.id, .windows = {span}}, root).has_value() == free);
  }

  void cancel() {
    std::vector<const Booking*> live;
    for (const auto& [id, booking] : state.bookings)
      if (booking.state == BookingState::kBooked) live.push_back(&booking);
    if (live.empty()) return;
    const Booking& chosen = *live[draw(live.size())];
    REQUIRE(
        run(CancelBooking{chosen.id}, chosen.kind == ClaimKind::kBooking ? chosen.owner : root).has_value());
  }

  void submit_any() {
    const PartyId person = people[draw(3)];
    Ask ask = any_ask();
    ask.priority = static_cast<std::uint8_t>(draw(101));
    ask.preemptible = one_in(3);
    if (!one_in(3)) ask.time = kStep * (1 + draw(16));
    if (ask.isolation == Isolation::kDedicated && ask.instances == 2 && one_in(2)) ask.nodes = 2;
    for (const auto& [id, booking] : state.bookings)
      if (booking.state == BookingState::kBooked && booking.owner == person && one_in(8))
        ask.labels["booking"] = text(id);
    REQUIRE(run(SubmitJob{.ask = ask, .spec = "{}"}, person).has_value());
  }

  void end(LeaseId id, EndReason reason) {
    REQUIRE(report(id, LeaseState::kEnded, reason).has_value());
    REQUIRE(scrub(id).has_value());
    lingering.erase(id);
  }
  template <class Wanted>
  std::vector<LeaseId> live_leases(Wanted wanted) const {
    std::vector<LeaseId> out;
    for (const auto& [id, lease] : state.leases)
      if (lease.live() && wanted(lease)) out.push_back(id);
    return out;
  }
  // Passes, and agents that do what they are told, until nothing more happens.
  void settle() {
    for (bool again = true; again;) {
      schedule();
      for (const LeaseId id : live_leases([](const Lease& one) { return one.state == LeaseState::kGranted; }))
        REQUIRE(report(id, LeaseState::kRunning).has_value());
      check_cut_short();
      const auto told =
          live_leases([&](const Lease& one) { return one.revoked && !lingering.contains(one.id); });
      for (const LeaseId id : told) {
        if (one_in(4)) {
          lingering.insert(id);
        } else {
          end(id, state.leases.at(id).revoke_reason);
        }
      }
      again = !told.empty();
    }
  }
  void tick() {
    clock += kStep;
    const auto over = live_leases([&](const Lease& one) {
      const Job& job = state.jobs.at(one.job);
      return lingering.contains(one.id) || (job.ask.time > Duration{} && one.granted + job.ask.time <= clock);
    });
    for (const LeaseId id : over)
      end(id, lingering.contains(id) ? state.leases.at(id).revoke_reason : EndReason::kExited);
    std::vector<JobId> early;
    for (const auto& [id, job] : state.jobs)
      if (job.state == JobState::kRunning && one_in(10)) early.push_back(id);
    for (const JobId id : early) finish(id);
    settle();
  }
  void finish(JobId id) {
    for (const LeaseId lease : std::vector(state.jobs.at(id).leases))
      if (state.leases.at(lease).live()) end(lease, EndReason::kExited);
  }
  // Everybody ends as soon as he has begun, until nothing runs.
  void exodus() {
    for (int round = 0; round < 1000; ++round) {
      const auto all = live_leases([](const Lease&) { return true; });
      if (all.empty()) return;
      for (const LeaseId id : all) end(id, EndReason::kExited);
      settle();
    }
    FAIL("work comes back for ever");
  }

  void check_nothing_oversold() const {
    const Recount counted = recount();
    for (const auto& [id, device] : state.devices) {
      CAPTURE(text(id));
      CHECK(Recount::legal(device, counted.leased(device, [](const Lease&, const Job&) { return true; })));
      const Recount::Pieces claims = counted.claimed(device);
      for (const Recount::Piece& moment : claims) {
        Recount::Pieces together;
        for (const Recount::Piece& one : claims)
          if (one.from <= moment.from && moment.from < one.to) together.push_back(one);
        CHECK(Recount::legal(device, together));
      }
      // Beside what is booked now there are only guests who may be there, or have been told to go.
      Recount::Pieces present = counted.leased(device, [](const Lease& lease, const Job&) {
        return lease.live() && !lease.revoked && lease.booking == ClaimId{};
      });
      for (const Recount::Piece& one : counted.claimed(device, true)) present.push_back(one);
      CHECK(Recount::legal(device, present));
    }
  }
  // A job that keeps its time limit was there by right: no booking ends it.
  void check_cut_short() const {
    if (maintained) return;  // Maintenance may.
    for (const auto& [id, lease] : state.leases) {
      if (!lease.revoked || lease.revoke_reason != EndReason::kWindowClosed || lease.booking != ClaimId{})
        continue;
      const Job& job = state.jobs.at(lease.job);
      CHECK((job.ask.preemptible || job.ask.time == Duration{}));
    }
  }
  void check_nobody_waits_beside_an_idle_fleet() const {
    for (const auto& [id, lease] : state.leases)
      if (lease.holds_slices()) return;
    for (const auto& [id, job] : state.jobs) {
      if (job.state != JobState::kPending || job.not_before > clock || job.ask.labels.contains("booking") ||
          job.ask.nodes > 1)
        continue;
      Duration stay = job.ask.time == Duration{} ? 24h * 10 : job.ask.time;
      if (job.ask.preemptible) stay = kStep;
      CAPTURE(text(id));
      CAPTURE(job.ask.profile);
      CAPTURE(job.ask.instances);
      CAPTURE(job.ask.milli_each);
      CAPTURE(job.ask.preemptible);
      CHECK_FALSE(recount().fits(job.ask, group_of(job.owner), {clock, clock + stay}));
    }
  }
};

TEST_CASE(
    "calendar: any day leaves no instant oversold, no wrong refusal and nobody waiting beside an idle "
    "fleet") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  for (std::uint64_t seed = 1; seed <= (thorough ? 400U : 6U); ++seed) {
    CAPTURE(seed);
    Depot depot(seed);
    for (int step = 0; step < 150; ++step) {
      CAPTURE(step);
      for (std::uint32_t i = depot.draw(3); i > 0; --i) depot.submit_any();
      if (depot.one_in(2)) depot.book();
      if (depot.one_in(10)) depot.cancel();
      if (depot.maintained && depot.one_in(12)) depot.maintain();
      depot.settle();
      depot.check_nothing_oversold();
      if (step % 16 == 15) depot.exodus();
      depot.check_nobody_waits_beside_an_idle_fleet();
      depot.tick();
      depot.check_nothing_oversold();
    }
    for (int day = 0; day < 12; ++day) {
      depot.exodus();
      depot.clock += 24h;
      depot.settle();
    }
    CHECK(depot.state.index.calendar->empty());
    for (const auto& [id, job] : depot.state.jobs) CHECK(is_over(job.state));
  }
}

TEST_CASE("calendar: of a million bookings no two have the same part of a device at the same instant") {
  const bool thorough = std::getenv("TRANCHE_LONG") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t wanted = thorough ? 1'000'000 : 2'000;
  std::uint64_t booked = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; booked < wanted; ++seed) {
    CAPTURE(seed);
    Depot depot(seed);
    for (int asked = 0; asked < 2000; ++asked) {
      ++(depot.book_ahead() ? booked : refused);
      if (depot.one_in(20)) depot.cancel();
    }
    depot.check_nothing_oversold();
  }
  MESSAGE(booked << " booked, " << refused << " refused");
  CHECK(refused > booked / 20);  // The calendars were full enough to have conflicts.
}

TEST_CASE("calendar: the nearest window is named however many taken ones are between") {
  Depot depot(1);
  BookWindows hours{.ask = {.isolation = Isolation::kDedicated, .instances = 2, .milli_each = 1000}};
  for (int hour = 1; hour <= 300; ++hour)
    hours.windows.push_back({depot.clock + hour * 1h, depot.clock + hour * 1h + 30min});
  for (int node = 0; node < 3; ++node) REQUIRE(depot.run(hours, depot.people[0]).has_value());
  const Instant wanted = depot.clock + 30min;
  const auto refused =
      depot.run(BookWindows{.ask = hours.ask, .windows = {{wanted, wanted + 1h}}}, depot.people[1]);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().fix.find(text(depot.clock)) != std::string::npos);
  const auto later =
      depot.run(BookWindows{.ask = hours.ask, .windows = {{wanted, wanted + 2h}}}, depot.people[1]);
  REQUIRE_FALSE(later);
  CHECK(later.error().fix ==
        "nearest that fit: " + text(depot.clock + 300h + 30min) + '/' + text(depot.clock + 302h + 30min));
}

// A stream of short, urgent jobs that would fill the fleet for ever, and one patient job that needs much of
// it.
std::optional<Duration> wait_behind_a_stream(Ask patient) {
  World world;
  const PartyId acme = world.create(PartyKind::kTenant, kPlatform, "acme");
  const PartyId globex = world.create(PartyKind::kTenant, kPlatform, "globex");
  const PartyId ana = world.user(acme, "ana");
  const PartyId bo = world.user(globex, "bo");
  for (const char* name : {"a", "b", "c"}) world.node(name, 4);
  Random random(7);
  std::optional<JobId> waits;
  std::size_t queued = 0;
  for (int step = 0; step < 4 * 72; ++step) {
    for (; queued < 16; ++queued) {
      Ask urgent = gpus(1);
      urgent.isolation = Isolation::kDedicated;
      urgent.priority = 100;
      urgent.time = kStep * static_cast<int>(1 + random.below(16));
      world.submit(ana, urgent);
    }
    world.schedule();
    if (step == 4) {
      patient.priority = 0;
      patient.time = 1h;
      waits = world.submit(bo, patient);
    }
    if (waits && world.state.jobs.at(*waits).state != JobState::kPending)
      return world.clock - world.state.jobs.at(*waits).submitted;
    world.clock += kStep;
    queued = 0;
    std::vector<LeaseId> over;
    for (const auto& [id, lease] : world.state.leases)
      if (lease.live() && lease.granted + world.state.jobs.at(lease.job).ask.time <= world.clock)
        over.push_back(id);
    for (const LeaseId id : over) {
      REQUIRE(world.report(id, LeaseState::kEnded, EndReason::kExited).has_value());
      REQUIRE(world.scrub(id).has_value());
    }
    for (const auto& [id, job] : world.state.jobs) queued += job.state == JobState::kPending ? 1U : 0U;
  }
  return std::nullopt;
}

// Ageing lifts it to the front after 48 hours; what it then waits for ends within the longest time limit, 4
// hours.
TEST_CASE("schedule: nobody starves behind a stream of urgent work: a device, a node, a gang") {
  Ask one = gpus(1);
  one.isolation = Isolation::kDedicated;
  Ask node = one;
  node.instances = 4;
  Ask gang = one;
  gang.nodes = 3;
  gang.instances = 12;
  for (const Ask& patient : {one, node, gang}) {
    CAPTURE(patient.instances);
    const auto waited = wait_behind_a_stream(patient);
    REQUIRE(waited);
    CHECK(*waited <= 48h + 4h + kStep);
  }
}

}  // namespace
}  // namespace tranche::engine
