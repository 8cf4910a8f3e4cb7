// SPDX-License-Identifier: Apache-2.0
// What work costs by the unit, before it is done; and limits that hold for all of it together.
#include "engine/unit_price.hpp"

#include <doctest/doctest.h>

#include "engine/lease_meter.hpp"
#include "engine/plan_price.hpp"
#include "engine/snapshot.hpp"
#include "engine/spend.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

struct Studio : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 2);
  std::uint64_t heard = 0, records = 0;

  Money paid_in;

  explicit Studio(Money credit = units(1000)) : paid_in(credit) {
    TRANCHE_CHECK(run(TopUp{acme, credit, "", ""}, root).has_value());
  }
  void price(Money gpu_hour, std::map<std::string, Money> per_million) {
    PriceList list{.name = "list", .rules = {{.name = "all", .gpu_hour = gpu_hour}}};
    list.rules.front().per_million = std::move(per_million);
    REQUIRE(run(SetPriceList{list}, root));
  }
  SubmitJob film(std::int64_t frames, std::uint32_t chunk, Money spend = {}) {
    SubmitJob command{.name = "film", .ask = gpus(1), .spec = "{}"};
    command.ask.time = hours(1);
    command.ask.spend = spend;
    command.unit = WorkUnit::kFrame;
    command.units = {.first = 1, .last = frames};
    command.chunk = chunk;
    return command;
  }
  wire::JobPrice price_of(const SubmitJob& command) {
    return job_price(state, ana, command.ask, Admission::kWithinQuota, clock, work_ahead(command));
  }
  Decision meter(const Lease& lease, Instant from) {
    return run(ReportMeters{.node = lease.node,
                            .records = {{.lease = lease.id,
                                         .epoch = lease.epoch,
                                         .sequence = ++records,
                                         .device = lease.slices.front().device,
                                         .from = from,
                                         .to = clock}}});
  }
  void frame_done(const Lease& lease, std::int64_t frame) {
    wire::ProgressReport said{.lease = lease.id, .epoch = lease.epoch, .at = clock};
    said.verdicts.push_back({.unit = frame, .good = true, .microseconds = 1000});
    REQUIRE(run(NoteProgress{.node = lease.node, .sequence = ++heard, .report = std::move(said)}));
  }
  [[nodiscard]] std::vector<LeaseId> live() const {
    std::vector<LeaseId> found;
    for (const auto& [id, lease] : state.leases)
      if (lease.live()) found.push_back(id);
    return found;
  }
  [[nodiscard]] std::int64_t spent() const {
    return paid_in.micros - balance(state.ledger, credit_account(state, acme)).micros;
  }
};

TEST_CASE("unit prices: known numbers are in the most, others are told beside it") {
  Studio world;
  world.price(units(2), {{"frames", units(1'000)}, {"tokens", {300'000}}});
  const auto film = world.price_of(world.film(240, 10));
  // 240 chunks of one frame, an hour each, and a thousandth for every frame.
  CHECK(film.most == Money{240 * units(2).micros + 240'000});
  REQUIRE(film.units.size() == 2);
  CHECK(film.units[0].unit == "frames");
  CHECK(film.units[0].count == 240);
  CHECK(film.units[0].most == Money{240'000});
  CHECK(film.units[1].unit == "tokens");
  CHECK_FALSE(film.units[1].count.has_value());
  CHECK(film.units[1].per_million == Money{300'000});

  SubmitJob clip = world.film(3, 1);
  clip.unit = WorkUnit::kUnit;
  clip.milliseconds = {10'000, 10'000, 4'200};
  world.price(units(0), {{"seconds", units(1'000'000)}});
  CHECK(world.price_of(clip).most == units(25));  // A begun second is one at most.

  SubmitJob once{.ask = gpus(1), .spec = "{}"};
  once.ask.time = hours(2);
  once.ask.retries = 2;
  world.price(units(2), {{"tokens", units(3)}});
  CHECK(world.price_of(once).most == units(12));  // Three tries.
  once.ask.spend = units(5);
  CHECK(world.price_of(once).most == units(5));
  CHECK(world.price_of(once).units.front().unit == "tokens");
}

TEST_CASE("unit prices: the dearest that may hold while it runs counts") {
  Studio world;
  PriceList list{.name = "now", .rules = {{.name = "cheap"}}};
  list.rules.front().per_million["steps"] = units(1);
  REQUIRE(world.run(SetPriceList{list}, world.root));
  list.name = "soon";
  list.valid_from = world.clock + minutes(30);
  list.rules.front().per_million["steps"] = units(5);
  REQUIRE(world.run(SetPriceList{list}, world.root));
  SubmitJob job{.ask = gpus(1), .spec = "{}"};
  job.ask.time = minutes(20);
  CHECK(world.price_of(job).units.front().per_million == units(1));
  job.ask.time = hours(1);
  CHECK(world.price_of(job).units.front().per_million == units(5));
  const auto booked = booking_price(world.state, world.ana, gpus(1), {{world.clock, world.clock + hours(1)}});
  REQUIRE(booked.units.size() == 1);
  CHECK(booked.units.front().per_million == units(5));
}

TEST_CASE("unit prices: what a chunk's frames cost is set aside with its time") {
  Studio world;
  world.price(units(2), {{"frames", units(1'000'000)}});  // One for each frame.
  REQUIRE(world.run(world.film(4, 4), world.ana));
  world.schedule();
  const LeaseId lease = world.live().front();
  CHECK(world.state.meters.at(lease).held == units(6));
  REQUIRE(world.report(lease, LeaseState::kRunning));
  const Instant began = world.clock;
  world.clock += minutes(30);
  world.frame_done(world.state.leases.at(lease), 1);
  REQUIRE(world.meter(world.state.leases.at(lease), began));
  CHECK(world.spent() == units(2).micros);  // Half an hour, and a frame.
  CHECK(world.state.meters.at(lease).held == units(4));
}

// A farm at work: every half minute each chunk that runs does a frame and is charged, and ends when it is
// told to or has no frame left.
struct Farm : Studio {
  std::map<LeaseId, Instant> since{};
  std::string stopped_because{};
  using Studio::Studio;

  void end(LeaseId id, EndReason reason) {
    REQUIRE(scrub(id));
    REQUIRE(report(id, LeaseState::kEnded, reason));
  }
  void work(JobId film, int half_minutes) {
    for (int i = 0; i < half_minutes && !is_over(state.jobs.at(film).state); ++i) {
      schedule();
      for (const LeaseId id : live()) {
        if (state.leases.at(id).started != Instant{}) continue;
        REQUIRE(report(id, LeaseState::kRunning));
        since[id] = clock;
      }
      clock += std::chrono::seconds(30);
      for (const LeaseId id : live()) step(film, id);
      schedule();
    }
  }
  void step(JobId film, LeaseId id) {
    const Lease& lease = state.leases.at(id);
    const Chunk* chunk = state.work.groups.at(film).chunk_of(lease.job);
    if (chunk != nullptr && !chunk->left.empty()) frame_done(lease, chunk->left.front().first);
    const Decision decided = meter(lease, since[id]);
    REQUIRE(decided);
    for (const Event& event : *decided)
      if (const auto* stop = std::get_if<LeaseRevoked>(&event)) stopped_because = stop->message;
    since[id] = clock;
    chunk = state.work.groups.at(film).chunk_of(lease.job);
    if (lease.revoked) return end(id, EndReason::kSpendLimit);
    if (chunk == nullptr || chunk->left.empty()) end(id, EndReason::kExited);
  }
  void check_sums(JobId film) const {
    const JobGroup& group = state.work.groups.at(film);
    Money held{};
    for (const auto& [lease, meter] : state.meters) held.micros += meter.held.micros;
    CHECK(group.held == held);
    CHECK(group.charged == Money{spent()});
  }
};

TEST_CASE("spend limit of a job of many units: all chunks together never pass it, and then it is over") {
  Farm world;
  world.price(units(60), {{"frames", units(100'000)}});  // One a minute, and a tenth for each frame.
  const JobId film{world.state.next_job};
  REQUIRE(world.run(world.film(100, 5, units(7)), world.ana));
  for (int i = 0; i < 40 && !is_over(world.state.jobs.at(film).state); ++i) {
    world.work(film, 1);
    world.check_sums(film);
    CHECK(world.spent() <= units(7).micros);
  }
  const Job& job = world.state.jobs.at(film);
  CHECK(job.state == JobState::kFailed);
  CHECK(job.reason == EndReason::kSpendLimit);
  CHECK(job.message.starts_with("the job's own spend limit is used up"));
  CHECK(world.live().empty());
  CHECK(world.spent() > units(5).micros);
  CHECK(world.state.work.groups.at(film).held == Money{});
  for (const auto& [id, one] : world.state.jobs) CHECK(is_over(one.state));
}

TEST_CASE("spend limit of a job of many units: chunks that were forgotten still count") {
  Farm world;
  world.price(units(60), {});  // One a minute.
  Settings settings = world.state.settings;
  settings.keep_ended_jobs = hours(1);
  REQUIRE(world.run(ChangeSettings{settings}, world.root));
  const JobId film{world.state.next_job};
  REQUIRE(world.run(world.film(100, 1, units(7)), world.ana));
  world.work(film, 6);  // One at a time: a chunk that may run for an hour has all that is left set aside.
  REQUIRE(world.spent() > units(2).micros);
  // Nobody works for some hours, because nobody could pay.
  REQUIRE(world.run(SetQuota{world.acme, {.spend = Money{world.spent()}}}, world.root));
  for (const LeaseId id : world.live()) world.end(id, EndReason::kSpendLimit);
  world.clock += hours(3);
  REQUIRE(world.run(Tick{}));
  const JobGroup& group = world.state.work.groups.at(film);
  REQUIRE_FALSE(group.past.empty());
  for (const JobId id : group.past) CHECK(world.state.job(id) == nullptr);
  world.check_sums(film);
  REQUIRE(world.run(SetQuota{world.acme, {}}, world.root));
  world.work(film, 60);
  CHECK(world.state.jobs.at(film).reason == EndReason::kSpendLimit);
  CHECK(world.spent() <= units(7).micros);
  CHECK(world.spent() > units(5).micros);
}

TEST_CASE("spend limit of a job of many units: it is not to blame for a tenant that runs out of credit") {
  Farm world(units(5));
  world.price(units(60), {});
  const auto left = [&] { return available(world.state.ledger, credit_account(world.state, world.acme)); };
  const JobId film{world.state.next_job};
  SubmitJob command = world.film(40, 5, units(100));
  command.ask.time = minutes(4);
  REQUIRE(world.run(command, world.ana));
  world.work(film, 30);
  const JobGroup& group = world.state.work.groups.at(film);
  CHECK_FALSE(is_over(world.state.jobs.at(film).state));
  CHECK(world.live().empty());
  CHECK(left() < units(1));
  CHECK(group.given_up == 0);
  CHECK(group.failures.empty());
  CHECK(world.stopped_because.find("credit of acme is used up") != std::string::npos);
  const wire::Why why = explain(world.state, {world.ana}, world.state.jobs.at(film));
  CHECK(why.reason == wire::WaitReason::kBudget);
  CHECK(why.message.find("the credit of acme does not cover") != std::string::npos);
  // With money it goes on, at once.
  REQUIRE(world.run(TopUp{world.acme, units(100), "", ""}, world.root));
  world.work(film, 60);
  CHECK(world.state.jobs.at(film).state == JobState::kSucceeded);
}

TEST_CASE("spend limit of a job of many units: a snapshot in which groups kept no sums is summed up") {
  Farm world;
  world.price(units(60), {});
  const JobId film{world.state.next_job};
  REQUIRE(world.run(world.film(100, 2, units(20)), world.ana));
  world.work(film, 6);
  world.check_sums(film);
  REQUIRE(world.state.work.groups.at(film).held > Money{});
  const std::string kept = encode_state(world.state);
  JobGroup& group = world.state.work.groups.at(film);
  group.charged.reset();
  group.held = {};
  const auto back = decode_state(encode_state(world.state));
  REQUIRE(back);
  CHECK(encode_state(*back) == kept);
}

}  // namespace
}  // namespace tranche::engine
