// SPDX-License-Identifier: Apache-2.0
// Quota, fair share and forecast, stated in units of the work.
#include <doctest/doctest.h>

#include "engine/fair_units.hpp"
#include "engine/snapshot.hpp"
#include "engine/unit_forecast.hpp"
#include "engine/unit_quota.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using namespace std::chrono_literals;
using wire::WorkloadKind;

struct Studio : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId films = create(PartyKind::kSubscriber, acme, "films");
  PartyId ana = user(films, "ana");
  PartyId bob = user(acme, "bob");
  NodeId gpu_node = node("gpu-01", 2);
  std::uint64_t heard = 0;

  void limit(PartyId party,
             const std::string& unit,
             std::int64_t most,
             wire::Period period = wire::Period::kMonth) {
    Quota quota = state.party(party)->quota;
    quota.units[unit] = most;
    quota.period = period;
    REQUIRE(run(SetQuota{party, quota}, root));
  }
  SubmitJob film(std::int64_t frames, const std::string& name = "film") {
    SubmitJob command{.name = name, .ask = gpus(1), .spec = "{}"};
    command.ask.kind = WorkloadKind::kRender;
    command.unit = WorkUnit::kFrame;
    command.units = {.first = 1, .last = frames};
    command.chunk = static_cast<std::uint32_t>(frames);
    return command;
  }
  JobId submit(const SubmitJob& command, PartyId who) {
    const JobId id{state.next_job};
    REQUIRE(run(command, who));
    schedule();
    return id;
  }
  // The job at work, or the first chunk of a group.
  Lease& at_work(JobId id) {
    const auto group = state.work.groups.find(id);
    const JobId job = group == state.work.groups.end() ? id : group->second.chunks.front().job;
    return state.leases.at(state.jobs.at(job).leases.front());
  }
  void starts(JobId id) { REQUIRE(report(at_work(id).id, LeaseState::kRunning)); }
  Decision tell(JobId id, wire::ProgressReport said) {
    const Lease& lease = at_work(id);
    said.lease = lease.id;
    said.epoch = lease.epoch;
    said.at = clock;
    return run(NoteProgress{.node = lease.node, .sequence = ++heard, .report = std::move(said)});
  }
  void frames_done(JobId id, std::int64_t from, std::int64_t to, Duration each) {
    wire::ProgressReport said;
    for (std::int64_t frame = from; frame <= to; ++frame)
      said.verdicts.push_back({.unit = frame, .good = true, .microseconds = each.count()});
    REQUIRE(tell(id, std::move(said)));
  }
  void ends(JobId id) {
    const LeaseId lease = at_work(id).id;
    REQUIRE(scrub(lease));
    REQUIRE(report(lease, LeaseState::kEnded, EndReason::kExited, 0));
    schedule();
  }
};

TEST_CASE("unit quota: frames are promised at submission, and the level that says no is named") {
  Studio studio;
  studio.limit(studio.films, "frames", 100);
  const JobId first = studio.submit(studio.film(60), studio.ana);
  const auto refused = studio.run(studio.film(41), studio.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == Reason::kQuota);
  CHECK(refused.error().rule == "units.frames");
  CHECK(refused.error().where == "acme/films");
  CHECK(refused.error().limit == 100);
  CHECK(refused.error().used == 60);
  CHECK(refused.error().asked == 41);
  CHECK(refused.error().message == "acme/films may do 100 frames a month: 0 are done, 60 promised to jobs");
  CHECK(refused.error().fix.starts_with("ask for at most 40, wait until "));
  CHECK(studio.run(studio.film(1000), studio.bob));  // Another branch of the tree.
  // Stopped, it gives back what it did not do.
  studio.starts(first);
  studio.frames_done(first, 1, 10, 1s);
  REQUIRE(studio.run(StopJob{first}, studio.ana));
  studio.ends(first);
  CHECK_FALSE(studio.run(studio.film(91), studio.ana));
  CHECK(studio.run(studio.film(90), studio.ana));
}

TEST_CASE("unit quota: a period is a day, a week from Monday or a month, and the next one begins anew") {
  Studio studio;
  studio.limit(studio.acme, "frames", 20, wire::Period::kDay);
  const JobId film = studio.submit(studio.film(20), studio.ana);
  studio.starts(film);
  studio.frames_done(film, 1, 20, 1s);
  studio.ends(film);
  CHECK_FALSE(studio.run(studio.film(1), studio.ana));
  studio.clock = period_end(wire::Period::kDay, studio.clock);
  CHECK(studio.run(studio.film(20), studio.ana));
  using std::chrono::sys_days, std::chrono::year;
  const Instant friday = sys_days(year(2026) / 11 / 20) + 15h;
  CHECK(period_start(wire::Period::kWeek, friday) == sys_days(year(2026) / 11 / 16));
  CHECK(period_end(wire::Period::kWeek, friday) == sys_days(year(2026) / 11 / 23));
  CHECK(period_end(wire::Period::kMonth, friday) == sys_days(year(2026) / 12 / 1));
  CHECK(period_end(wire::Period::kMonth, sys_days(year(2026) / 12 / 31)) == sys_days(year(2027) / 1 / 1));
}

TEST_CASE("unit quota: steps that are only told end their job at the limit, with the reason") {
  Studio studio;
  studio.limit(studio.acme, "steps", 1000);
  SubmitJob training{.ask = gpus(1), .spec = "{}"};
  training.ask.kind = WorkloadKind::kTraining;
  const JobId job = studio.submit(training, studio.ana);
  studio.starts(job);
  REQUIRE(studio.tell(job, {.unit = WorkUnit::kStep, .done = 999}));
  CHECK_FALSE(studio.at_work(job).revoked);
  REQUIRE(
      studio.tell(job, {.unit = WorkUnit::kStep, .done = 500}));  // Said again after a restart: counted once.
  CHECK_FALSE(studio.at_work(job).revoked);
  const auto told = studio.tell(job, {.unit = WorkUnit::kStep, .done = 1000});
  REQUIRE(told);
  REQUIRE(told->size() == 2);
  const auto& revoked = std::get<LeaseRevoked>(told->at(1));
  CHECK(revoked.reason == EndReason::kUnitQuota);
  CHECK(revoked.message.starts_with("acme may do 1000 steps a month, and they are done"));
  studio.ends(job);
  CHECK(studio.state.jobs.at(job).state == JobState::kFailed);
  CHECK(studio.state.jobs.at(job).reason == EndReason::kUnitQuota);
  const auto next = studio.run(training, studio.bob);
  REQUIRE_FALSE(next);
  CHECK(next.error().rule == "units.steps");
  training.ask.kind = WorkloadKind::kBatch;  // Tells no steps, as far as anybody knows.
  CHECK(studio.run(training, studio.bob));
}

TEST_CASE("unit quota: whoever ends with the last unit allowed is not stopped for it") {
  Studio studio;
  studio.limit(studio.acme, "steps", 10);
  SubmitJob training{.ask = gpus(1), .spec = "{}"};
  training.ask.kind = WorkloadKind::kFinetune;
  const JobId job = studio.submit(training, studio.ana);
  studio.starts(job);
  REQUIRE(studio.tell(job, {.unit = WorkUnit::kStep, .done = 10, .total = 10}));
  CHECK_FALSE(studio.at_work(job).revoked);
  studio.ends(job);
  CHECK(studio.state.jobs.at(job).state == JobState::kSucceeded);
}

TEST_CASE("unit quota: names that are no units and negative numbers are refused") {
  Studio studio;
  Quota quota;
  quota.units["pictures"] = 5;
  auto refused = studio.run(SetQuota{studio.acme, quota}, studio.root);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "units.pictures");
  quota.units = {{"tokens", -1}};
  refused = studio.run(SetQuota{studio.acme, quota}, studio.root);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "units.tokens");
}

TEST_CASE("unit book: a service's requests and tokens count for its owner, in and out for tokens") {
  Studio studio;
  studio.limit(studio.acme, "tokens", 100);
  SetService service{.name = "chat", .spec = "{}", .versions = {{"v1", gpus(1), "{}"}}};
  REQUIRE(studio.run(service, studio.bob));
  const ServiceKey key{studio.acme, "chat"};
  REQUIRE(studio.run(AddReplica{key, "v1"}));
  REQUIRE(studio.run(CountRequests{key, {.requests = 3, .tokens_in = 20, .tokens_out = 25}}));
  const auto limits = unit_limits(studio.state, studio.bob, studio.clock);
  REQUIRE(limits.size() == 1);
  CHECK(limits[0].done == 45);
  CHECK(limits[0].left() == 55);
  const UnitCounts counts = units_done(studio.state, *studio.state.party(studio.bob), studio.clock);
  CHECK(counts == UnitCounts{{"requests", 3}, {"tokens_in", 20}, {"tokens_out", 25}});
}

TEST_CASE("unit book: seconds of footage are counted by the pieces that are done") {
  Studio studio;
  SubmitJob clip = studio.film(3, "clip");
  clip.unit = WorkUnit::kUnit;
  clip.milliseconds = {10'000, 10'400, 3'700};
  studio.limit(studio.acme, "seconds", 24);
  CHECK_FALSE(studio.run(clip, studio.ana));  // 24.1 seconds are more than 24.
  studio.limit(studio.acme, "seconds", 25);
  const JobId job = studio.submit(clip, studio.ana);
  studio.starts(job);
  studio.frames_done(job, 1, 1, 5s);
  CHECK(units_done(studio.state, studio.acme, "seconds", studio.clock - 24h) == 10);
  studio.frames_done(job, 3, 3, 2s);
  CHECK(units_done(studio.state, studio.acme, "seconds", studio.clock - 24h) == 13);
  studio.frames_done(job, 2, 2, 6s);
  CHECK(units_done(studio.state, studio.acme, "seconds", studio.clock - 24h) == 24);
  CHECK(studio.state.work.unsettled.begin()->second.counts.at("seconds") == 24);
  clip.milliseconds = {10'000};
  const auto refused = studio.run(clip, studio.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "media.pieces");
}

// Two tenants with the same device time: one did heavy frames, the other light ones.
struct Fairness : Studio {
  PartyId blue = create(PartyKind::kTenant, kPlatform, "blue");
  PartyId eve = user(blue, "eve");

  std::pair<std::int32_t, std::int32_t> ranks() {
    const auto all = state.index.capacity->ranks(clock);
    return {all.at(acme), all.at(blue)};
  }
  void work(Duration lasts, std::int64_t heavy, std::int64_t light) {
    const JobId a = submit(film(heavy), ana), b = submit(film(light), eve);
    starts(a);
    starts(b);
    clock += lasts;
    frames_done(a, 1, heavy, lasts / heavy);
    frames_done(b, 1, light, lasts / light);
  }
};

TEST_CASE("fair units: tenants with the same time rank by the frames they did, once a frame has a weight") {
  Fairness by_time;
  by_time.work(100s, 2, 50);
  Fairness by_frames;
  Settings settings = by_frames.state.settings;
  settings.fair_units["frames"] = 30s;
  REQUIRE(by_frames.run(ChangeSettings{settings}, by_frames.root));
  by_frames.work(100s, 2, 50);
  CHECK(by_frames.ranks() == std::pair(0, 1));  // 60 device-seconds against 1,500.
  const auto& [heavy, light] = std::pair(by_frames.acme, by_frames.blue);
  for (const auto& [id, lease] : by_frames.state.leases) {
    CHECK(lease.weighed == (lease.tenant == heavy ? 60'000 : 1'500'000));
    CHECK(lease.weighed_to == by_frames.clock);
  }
  // A restart comes to the same ranks, and so does an end long ago.
  const auto again = decode_state(encode_state(by_frames.state));
  REQUIRE(again);
  CHECK(again->index.capacity->ranks(by_frames.clock) ==
        by_frames.state.index.capacity->ranks(by_frames.clock));
  static_cast<void>(light);
  // Whoever tells nothing more is charged by time from then on.
  by_frames.clock += 10h;
  CHECK(by_frames.ranks() == std::pair(0, 1));
  CHECK(by_time.ranks().first + by_time.ranks().second == 1);
}

TEST_CASE("fair units: without a word of units the time counts, and bad weights are refused") {
  Fairness quiet;
  Settings settings = quiet.state.settings;
  settings.fair_units["frames"] = 1h;
  REQUIRE(quiet.run(ChangeSettings{settings}, quiet.root));
  const JobId a = quiet.submit(quiet.film(2), quiet.ana);
  const JobId b = quiet.submit({.ask = gpus(1), .spec = "{}"}, quiet.eve);
  quiet.starts(a);
  REQUIRE(quiet.report(quiet.at_work(b).id, LeaseState::kRunning));
  quiet.clock += 10min;
  quiet.frames_done(a, 1, 1, 10min);  // An hour for ten minutes.
  CHECK(quiet.ranks() == std::pair(1, 0));
  settings.fair_units = {{"pictures", 1s}};
  CHECK_FALSE(quiet.run(ChangeSettings{settings}, quiet.root));
  settings.fair_units = {{"frames", -1s}};
  CHECK_FALSE(quiet.run(ChangeSettings{settings}, quiet.root));
}

TEST_CASE("fair units: a night without requests counts by its time") {
  Fairness site;
  Settings settings = site.state.settings;
  settings.fair_units["requests"] = 1s;
  REQUIRE(site.run(ChangeSettings{settings}, site.root));
  REQUIRE(site.run(SetService{.name = "chat", .spec = "{}", .versions = {{"v1", gpus(1), "{}"}}}, site.bob));
  const ServiceKey key{site.acme, "chat"};
  const JobId replica{site.state.next_job};
  REQUIRE(site.run(AddReplica{key, "v1"}));
  site.schedule();
  site.starts(replica);
  const Instant from = site.at_work(replica).granted;
  site.clock = from + 1h;
  REQUIRE(site.run(CountRequests{key, {.requests = 5}}));
  // 59 minutes by time, and five requests for the last one.
  CHECK(site.at_work(replica).weighed == 59 * 60 * 1000 + 5000);
}

TEST_CASE("unit forecast: what so many frames take and cost follows from the last job of that name") {
  Studio studio;
  CHECK_FALSE(unit_estimate(studio.state, studio.ana, "film", WorkUnit::kFrame, 240, studio.clock));
  const JobId film = studio.submit(studio.film(4), studio.ana);
  studio.starts(film);
  studio.frames_done(film, 1, 4, 90s);
  auto estimate = unit_estimate(studio.state, studio.ana, "film", WorkUnit::kFrame, 240, studio.clock);
  REQUIRE(estimate);
  CHECK(estimate->each == 90s);
  CHECK(estimate->one_by_one == 6h);
  CHECK(estimate->by == text(film) + " of the same name");
  CHECK_FALSE(estimate->cost);
  estimate = unit_estimate(studio.state, studio.bob, "another", WorkUnit::kFrame, 10, studio.clock);
  REQUIRE(estimate);
  CHECK(estimate->by == "what acme did in the last month");
  CHECK(estimate->one_by_one == 15min);
  CHECK_FALSE(unit_estimate(studio.state, studio.bob, "film", WorkUnit::kStep, 10, studio.clock));
}

TEST_CASE("unit forecast: a film near its deadline starts by what all its frames still take") {
  Studio studio;
  SubmitJob command = studio.film(100);
  command.chunk = 10;
  command.ask.time = 1h;
  command.ask.deadline = studio.clock + 10h;
  const JobId film = studio.submit(command, studio.ana);
  studio.starts(film);
  const Job& waiting = studio.state.jobs.at(studio.state.work.groups.at(film).chunks.back().job);
  CHECK(latest_start(studio.state, waiting) == *command.ask.deadline - 1h);  // Nothing is known yet.
  studio.frames_done(film, 1, 4, 10min);
  // 96 frames of ten minutes on the one slice that runs are sixteen hours.
  CHECK(latest_start(studio.state, waiting) == *command.ask.deadline - 16h);
  CHECK_FALSE(latest_start(studio.state,
                           studio.state.jobs.at(studio.submit({.ask = gpus(1), .spec = "{}"}, studio.bob))));
}

TEST_CASE("unit forecast: the same hour of earlier weeks says how many requests to expect") {
  Studio studio;
  REQUIRE(
      studio.run(SetService{.name = "chat", .spec = "{}", .versions = {{"v1", gpus(1), "{}"}}}, studio.bob));
  const ServiceKey key{studio.acme, "chat"};
  REQUIRE(studio.run(AddReplica{key, "v1"}));
  const Instant first = hour_start(studio.clock);
  for (int week = 0; week < 3; ++week) {
    studio.clock = first + week * 168h + 10min;
    REQUIRE(studio.run(CountRequests{key, {.requests = 600}}));
    studio.clock = first + week * 168h + 5h;
    REQUIRE(studio.run(CountRequests{key, {.requests = 30}}));
  }
  CHECK(expected_units(studio.state, studio.acme, first + 3 * 168h).at("requests") == 600);
  CHECK(expected_units(studio.state, studio.acme, first + 3 * 168h + 5h).at("requests") == 30);
  CHECK(expected_units(studio.state, studio.acme, first + 3 * 168h + 7h).empty());
}

TEST_CASE("checkpoints: those that a job said are whole are kept, the newest last, each name once") {
  Studio studio;
  const JobId job = studio.submit({.ask = gpus(1), .spec = "{}"}, studio.ana);
  studio.starts(job);
  for (const char* name : {"a", "b", "c", "a", "d"})
    REQUIRE(studio.tell(job, {.checkpoints = {{.name = name, .bytes = 5, .digest = "x"}}}));
  const auto& kept = studio.state.work.checkpoints.at(job).notes;
  REQUIRE(kept.size() == wire::kCheckpointsKept);
  CHECK(kept[0].name == "c");
  CHECK(kept[1].name == "a");
  CHECK(kept[2].name == "d");
  const auto again = decode_state(encode_state(studio.state));
  REQUIRE(again);
  CHECK(encode_state(*again) == encode_state(studio.state));
}

}  // namespace
}  // namespace tranche::engine
