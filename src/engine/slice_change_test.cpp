// SPDX-License-Identifier: Apache-2.0
#include "engine/slice_change.hpp"

#include <doctest/doctest.h>

#include "engine/snapshot.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kGib = std::int64_t{1} << 30;

Ask share(std::uint32_t milli) {
  Ask ask = gpus(1, milli);
  ask.vram_each = milli * kGib / 20;
  return ask;
}

Ask between(std::uint32_t least, std::uint32_t most) {
  Ask ask = share(least);
  ask.range = wire::SliceRange{least, most, ask.vram_each, share(most).vram_each};
  return ask;
}

// One device of 80 GB on a node that can change slices, and two tenants who share.
struct Bench : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId globex = create(PartyKind::kTenant, kPlatform, "globex");
  PartyId ana = user(acme, "ana");
  PartyId bo = user(globex, "bo");

  explicit Bench(std::uint32_t devices = 1) {
    for (const PartyId tenant : {acme, globex}) {
      Quota quota;
      quota.share_soft = true;
      REQUIRE(limit(tenant, quota).has_value());
    }
    able("a", devices);
  }
  NodeId able(const std::string& name, std::uint32_t devices) {
    wire::Hello said = hello(name, devices, "H100-SXM5-80GB");
    said.features.resizes = said.features.parks = true;
    return joined(said);
  }
  void guarantee(PartyId tenant, std::int64_t milli) {
    Quota quota = state.party(tenant)->quota;
    quota.gpu_milli.guaranteed = milli;
    REQUIRE(limit(tenant, quota).has_value());
  }
  JobId begin(PartyId person, const Ask& ask) {
    const JobId id = submit(person, ask);
    schedule();
    REQUIRE(!job(id).leases.empty());
    REQUIRE(report(lease_of(id), LeaseState::kRunning).has_value());
    return id;
  }
  const Job& job(JobId id) const { return state.jobs.at(id); }
  LeaseId lease_of(JobId id) const { return job(id).leases.front(); }
  const Lease& lease(JobId id) const { return state.leases.at(lease_of(id)); }
  std::uint32_t milli(JobId id) const { return lease(id).slices.front().milli; }

  Decision answer(JobId id, LeaseState to, bool declined = false) {
    const Lease& one = lease(id);
    wire::LeaseReport said{.lease = one.id, .epoch = one.epoch, .state = to, .at = clock};
    if (one.change && !declined) {
      said.milli = one.change->milli;
      said.vram = Bytes{one.change->vram};
    }
    said.declined = declined;
    return run(ReportLease{.node = one.node, .report = said});
  }
  void end(JobId id, EndReason reason = EndReason::kExited) {
    const LeaseId one = lease_of(id);
    REQUIRE(report(one, LeaseState::kEnded, reason).has_value());
    REQUIRE(scrub(one).has_value());
  }
  // What is written down is all that is known: a server that starts again decides the same.
  void restart() {
    const std::string bytes = encode_state(state);
    auto again = decode_state(bytes);
    REQUIRE(again.has_value());
    CHECK(encode_state(*again) == bytes);
    state = std::move(*again);
  }
};

TEST_CASE("resize: a slice with a range begins as large as there is room for, and holds quota for it") {
  Bench bench;
  const JobId first = bench.begin(bench.ana, between(250, 750));
  CHECK(bench.milli(first) == 750);
  CHECK(bench.job(first).ask.milli_each == 750);
  CHECK(bench.state.party(bench.acme)->usage.gpu_milli == 750);
  const JobId second = bench.begin(bench.bo, between(100, 500));
  CHECK(bench.milli(second) == 250);
  CHECK(bench.state.party(bench.globex)->usage.gpu_milli == 250);
}

TEST_CASE("resize: a quota that allows no more keeps the slice small") {
  Bench bench;
  Quota quota = bench.state.party(bench.acme)->quota;
  quota.gpu_milli.limit = 400;
  REQUIRE(bench.limit(bench.acme, quota).has_value());
  const JobId job = bench.begin(bench.ana, between(250, 750));
  CHECK(bench.milli(job) <= 400);
  CHECK(bench.milli(job) > 250);
}

TEST_CASE("resize: whoever waits gets what a running slice has beyond its least, and no more than it needs") {
  Bench bench;
  const JobId large = bench.begin(bench.ana, between(250, 750));
  const JobId waits = bench.submit(bench.bo, share(500));
  bench.schedule();
  REQUIRE(bench.lease(large).change);
  CHECK(bench.lease(large).change->milli == 500);
  CHECK_FALSE(bench.lease(large).revoked);
  CHECK(bench.job(waits).state == JobState::kPending);  // Nothing is free before the node says so.
  bench.restart();
  REQUIRE(bench.answer(large, LeaseState::kRunning).has_value());
  CHECK(bench.milli(large) == 500);
  CHECK(bench.state.party(bench.acme)->usage.gpu_milli == 500);
  bench.schedule();
  CHECK(bench.job(waits).state == JobState::kStarting);
  CHECK(bench.job(large).attempts == 1);
}

TEST_CASE("resize: what is freed for somebody is his, whoever else waits") {
  Bench bench;
  const JobId large = bench.begin(bench.ana, between(250, 750));
  Ask low = share(500);
  low.priority = 50;
  const JobId waits = bench.submit(bench.bo, low);
  bench.schedule();
  REQUIRE(bench.lease(large).change);
  Ask urgent = share(500);
  urgent.priority = 90;
  const JobId later = bench.submit(bench.bo, urgent);
  REQUIRE(bench.answer(large, LeaseState::kRunning).has_value());
  bench.schedule();
  CHECK(bench.job(waits).state == JobState::kStarting);
  CHECK(bench.job(later).state == JobState::kPending);
}

TEST_CASE("resize: who must leave a booked device alone asks nobody there for room") {
  Bench bench;
  Ask brief = between(250, 750);
  brief.time = 1h;
  const JobId large = bench.begin(bench.ana, brief);
  const BookWindows window{.ask = gpus(1), .windows = {{bench.clock + 2h, bench.clock + 4h}}, .zone = "UTC"};
  REQUIRE(bench.run(window, bench.bo).has_value());
  const JobId endless = bench.submit(bench.bo, share(500));
  bench.schedule();
  CHECK(bench.job(endless).state == JobState::kPending);
  CHECK_FALSE(bench.lease(large).change);
}

TEST_CASE("resize: one that does not give back what it holds keeps it, and is not asked again") {
  Bench bench;
  const JobId large = bench.begin(bench.ana, between(250, 750));
  const JobId waits = bench.submit(bench.bo, share(500));
  bench.schedule();
  REQUIRE(bench.answer(large, LeaseState::kRunning, true).has_value());
  CHECK(bench.milli(large) == 750);
  bench.schedule();
  CHECK_FALSE(bench.lease(large).change);
  CHECK(bench.job(waits).state == JobState::kPending);
  bench.end(large);
  bench.schedule();
  CHECK(bench.job(waits).state == JobState::kStarting);
}

TEST_CASE("resize: a slice grows again in place when there is room, after a pause") {
  Bench bench;
  const JobId large = bench.begin(bench.ana, between(250, 750));
  const JobId other = bench.submit(bench.bo, share(500));
  bench.schedule();
  REQUIRE(bench.answer(large, LeaseState::kRunning).has_value());
  bench.schedule();
  REQUIRE(bench.report(bench.lease_of(other), LeaseState::kRunning).has_value());
  bench.end(other);
  bench.clock += 10s;
  bench.schedule();
  CHECK_FALSE(bench.lease(large).change);
  bench.clock += 2min;
  bench.schedule();
  REQUIRE(bench.lease(large).change);
  CHECK(bench.lease(large).change->milli == 750);
  // More is taken at once: nobody else gets it meanwhile.
  const JobId late = bench.submit(bench.bo, share(500));
  bench.schedule();
  CHECK(bench.job(late).state == JobState::kPending);
  REQUIRE(bench.answer(large, LeaseState::kRunning).has_value());
  CHECK(bench.milli(large) == 750);
}

TEST_CASE("resize: nobody of lower priority takes it, and no tenant gives of its own guarantee") {
  Bench bench;
  const JobId large = bench.begin(bench.ana, between(250, 750));
  Ask low = share(500);
  low.priority = 10;
  bench.submit(bench.bo, low);
  bench.schedule();
  CHECK_FALSE(bench.lease(large).change);
  bench.guarantee(bench.acme, 750);
  bench.submit(bench.bo, share(500));
  bench.schedule();
  CHECK_FALSE(bench.lease(large).change);
}

TEST_CASE("resize: charged by what it has, from the moment that it has it") {
  Bench bench;
  PriceList list{.name = "list", .valid_from = bench.clock};
  list.rules.push_back({.name = "all", .gpu_hour = Money{1'000'000}});
  REQUIRE(bench.run(SetPriceList{list}, bench.root).has_value());
  const JobId large = bench.begin(bench.ana, between(250, 750));
  bench.submit(bench.bo, share(500));
  bench.schedule();
  const auto meter = [&](std::uint64_t sequence, Instant from) {
    const Lease& one = bench.lease(large);
    REQUIRE(bench
                .run(ReportMeters{.node = one.node,
                                  .records = {{.lease = one.id,
                                               .epoch = one.epoch,
                                               .sequence = sequence,
                                               .device = one.slices.front().device,
                                               .from = from,
                                               .to = bench.clock}}})
                .has_value());
  };
  const Instant begun = bench.clock;
  bench.clock += 1h;
  meter(1, begun);
  REQUIRE(bench.answer(large, LeaseState::kRunning).has_value());
  CHECK(bench.job(large).charged == Money{750'000});
  bench.clock += 1h;
  meter(2, begun + 1h);
  CHECK(bench.job(large).charged == Money{1'250'000});
}

// A borrower of half a device, and the owner of all of it.
struct Lent : Bench {
  JobId borrower{};
  JobId owner{};
  explicit Lent(Ask lent = share(500), std::uint32_t devices = 1) : Bench(devices) {
    guarantee(acme, 1000 * devices);
    borrower = begin(bo, lent);
    clock += 1h;
    owner = submit(ana, share(900));
    schedule();
  }
};

TEST_CASE("pause: what was lent comes back by taking the borrower off its devices") {
  Lent lent;
  CHECK(lent.lease(lent.borrower).parking == Parking::kAsked);
  CHECK_FALSE(lent.lease(lent.borrower).revoked);
  CHECK(lent.job(lent.owner).state == JobState::kPending);
  lent.clock += 2s;
  REQUIRE(lent.answer(lent.borrower, LeaseState::kPaused).has_value());
  CHECK(lent.job(lent.borrower).state == JobState::kPaused);
  lent.restart();
  lent.schedule();
  CHECK(lent.job(lent.owner).state == JobState::kStarting);
  REQUIRE(lent.report(lent.lease_of(lent.owner), LeaseState::kRunning).has_value());
  lent.restart();
  lent.clock += 30min;
  lent.end(lent.owner);
  lent.schedule();
  CHECK(lent.lease(lent.borrower).parking == Parking::kReturning);
  lent.clock += 1s;
  REQUIRE(lent.answer(lent.borrower, LeaseState::kRunning).has_value());
  const Lease& back = lent.lease(lent.borrower);
  CHECK(back.parking == Parking::kNone);
  CHECK(back.parked_for == 30min + 1s);
  CHECK(lent.job(lent.borrower).state == JobState::kRunning);
  CHECK(lent.job(lent.borrower).attempts == 1);
}

TEST_CASE("pause: a job that may not be paused, or cannot be, is stopped as before") {
  Ask never = share(500);
  never.never_paused = true;
  Lent lent(never);
  CHECK(lent.lease(lent.borrower).revoked);
  Lent other;
  REQUIRE(other.answer(other.borrower, LeaseState::kRunning, true).has_value());
  other.schedule();
  CHECK(other.lease(other.borrower).revoked);
  CHECK(other.lease(other.borrower).revoke_reason == EndReason::kPreempted);
}

TEST_CASE("pause: a node that never answers is not waited for") {
  Lent lent;
  lent.clock += 10min;
  REQUIRE(schedule_due(lent.state, lent.clock));
  lent.schedule();
  CHECK(lent.lease(lent.borrower).revoked);
}

TEST_CASE("pause: the time off the devices is neither charged nor counted against the time limit") {
  Ask timed = share(500);
  timed.time = 3h;
  Lent lent(timed);
  PriceList list{.name = "list", .valid_from = lent.clock};
  list.rules.push_back({.name = "all", .gpu_hour = Money{1'000'000}});
  REQUIRE(lent.run(SetPriceList{list}, lent.root).has_value());
  const Instant limit = expected_end(lent.state, lent.lease(lent.borrower));
  REQUIRE(lent.answer(lent.borrower, LeaseState::kPaused).has_value());
  lent.schedule();
  REQUIRE(lent.report(lent.lease_of(lent.owner), LeaseState::kRunning).has_value());
  const Money before = lent.job(lent.borrower).charged;
  lent.clock += 1h;
  lent.end(lent.owner);
  lent.schedule();
  REQUIRE(lent.answer(lent.borrower, LeaseState::kRunning).has_value());
  CHECK(lent.job(lent.borrower).charged == before);
  CHECK(expected_end(lent.state, lent.lease(lent.borrower)) == limit + 1h);
}

TEST_CASE("pause: a slice that can be smaller gives that first, and is paused only when it is not enough") {
  Lent lent(between(250, 750));
  // The owner wants nine tenths: the least of the borrower is too much beside it.
  CHECK(lent.lease(lent.borrower).parking == Parking::kAsked);
  Bench bench;
  bench.guarantee(bench.acme, 1000);
  const JobId borrower = bench.begin(bench.bo, between(250, 750));
  bench.clock += 1h;
  bench.submit(bench.ana, share(700));
  bench.schedule();
  CHECK(bench.lease(borrower).parking == Parking::kNone);
  REQUIRE(bench.lease(borrower).change);
  CHECK(bench.lease(borrower).change->milli == 281);  // The largest sixteenth of its range that leaves room.
}

TEST_CASE("pause: a paused job that could run elsewhere does, when it has waited as long as it would lose") {
  Lent lent;
  REQUIRE(lent.answer(lent.borrower, LeaseState::kPaused).has_value());
  lent.schedule();
  REQUIRE(lent.report(lent.lease_of(lent.owner), LeaseState::kRunning).has_value());
  const NodeId other = lent.able("b", 1);
  lent.clock += 30min;
  lent.schedule();
  CHECK_FALSE(lent.lease(lent.borrower).revoked);  // It has run for an hour: that much it would lose.
  lent.clock += 31min;
  lent.schedule();
  REQUIRE(lent.lease(lent.borrower).revoked);
  CHECK(lent.lease(lent.borrower).goes_to == other);
  lent.end(lent.borrower, EndReason::kPreempted);
  lent.schedule();
  CHECK(lent.job(lent.borrower).state == JobState::kStarting);
  CHECK(lent.lease(lent.borrower).node == other);
}

TEST_CASE("pause: a paused job that is stopped, or whose node is lost, leaves nothing behind") {
  Lent lent;
  REQUIRE(lent.answer(lent.borrower, LeaseState::kPaused).has_value());
  lent.schedule();
  REQUIRE(lent.report(lent.lease_of(lent.owner), LeaseState::kRunning).has_value());
  REQUIRE(lent.run(StopJob{lent.borrower}, lent.bo).has_value());
  REQUIRE(lent.report(lent.lease_of(lent.borrower), LeaseState::kEnded, EndReason::kStopped).has_value());
  CHECK(lent.job(lent.borrower).state == JobState::kStopped);
  CHECK(lent.state.index.capacity->parked().empty());
  lent.end(lent.owner);
  const JobId whole = lent.submit(lent.ana, gpus(1));
  lent.schedule();
  CHECK(lent.job(whole).state == JobState::kStarting);
  Lent lost;
  REQUIRE(lost.answer(lost.borrower, LeaseState::kPaused).has_value());
  REQUIRE(lost.run(LoseNode{lost.lease(lost.borrower).node, "gone"}).has_value());
  CHECK(lost.job(lost.borrower).state == JobState::kPending);
  CHECK(lost.state.index.capacity->parked().empty());
}

TEST_CASE("retries: being stopped for others does not use up a job's own tries") {
  Bench bench;
  Ask ask = gpus(1);
  ask.retries = 1;
  const JobId job = bench.begin(bench.ana, ask);
  for (int i = 0; i < 3; ++i) {
    const LeaseId lease = bench.lease_of(job);
    REQUIRE(bench.run(ChangeNode{.id = bench.lease(job).node, .draining = true}, bench.root).has_value());
    REQUIRE(bench.report(lease, LeaseState::kEnded, EndReason::kPreempted).has_value());
    REQUIRE(bench.accept(bench.state.leases.at(lease).node).has_value());
    REQUIRE(bench.run(ChangeNode{.id = bench.state.leases.at(lease).node}, bench.root).has_value());
    bench.clock += 1min;
    bench.schedule();
    REQUIRE(bench.job(job).state == JobState::kStarting);
    REQUIRE(bench.report(bench.lease_of(job), LeaseState::kRunning).has_value());
  }
  REQUIRE(bench.report(bench.lease_of(job), LeaseState::kEnded, EndReason::kExited, 3).has_value());
  CHECK(bench.job(job).state == JobState::kPending);  // Its first error of its own.
}

}  // namespace
}  // namespace tranche::engine
