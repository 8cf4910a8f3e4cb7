// SPDX-License-Identifier: Apache-2.0
// The spend limit of a job of many units: it holds for all chunks together, however many run at once.
#include "base/random.hpp"
#include "engine/film_world.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// A farm at work: every half minute each chunk that runs is charged and may have a frame done, and it ends
// when it is told to or has no frame left.
struct Farm : Studio {
  struct AtWork {
    std::int64_t frame = 0;
    Instant began{};
  };
  std::map<LeaseId, Instant> since{};
  std::map<LeaseId, AtWork> at_work{};
  std::map<std::int64_t, Duration> takes{};  // Half a minute, where nothing is said of a frame.
  Duration ran{};                            // Of all leases.
  std::size_t together = 0;                  // The most that ran at once.
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
      together = std::max(together, live().size());
      clock += seconds(30);
      for (const LeaseId id : live()) step(film, id);
      schedule();
    }
  }
  void step(JobId film, LeaseId id) {
    const Lease& lease = state.leases.at(id);
    const Chunk* chunk = state.work.groups.at(film).chunk_of(lease.job);
    if (chunk != nullptr && !chunk->left.empty()) draw(lease, chunk->left.front().first);
    ran += clock - since[id];
    const Decision decided = meter(lease, since[id]);
    REQUIRE(decided);
    for (const Event& event : *decided)
      if (const auto* stop = std::get_if<LeaseRevoked>(&event)) stopped_because = stop->message;
    since[id] = clock;
    chunk = state.work.groups.at(film).chunk_of(lease.job);
    if (lease.revoked) return end(id, EndReason::kSpendLimit);
    if (chunk == nullptr || chunk->left.empty()) end(id, EndReason::kExited);
  }
  void draw(const Lease& lease, std::int64_t frame) {
    AtWork& now = at_work[lease.id];
    if (now.frame != frame) now = {frame, since[lease.id]};
    const auto known = takes.find(frame);
    const Duration needed = known == takes.end() ? seconds(30) : known->second;
    if (clock - now.began >= needed) frame_done(lease, frame, clock - now.began);
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
  world.work(film, 6);
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

TEST_CASE("spend limit of a job of many units: chunks run beside each other once one frame was done") {
  Farm world;
  world.node("gpu-02", 2);
  world.price(units(60), {});  // An hour ahead is twice the limit.
  const JobId film{world.state.next_job};
  REQUIRE(world.run(world.film(40, 1, units(30)), world.ana));
  world.schedule();
  REQUIRE(world.live().size() == 1);  // Nobody knows yet what a frame takes.
  CHECK(world.state.work.groups.at(film).held == units(30));
  const Chunk& next = world.state.work.groups.at(film).chunks[1];
  const wire::Why why = explain(world.state, {world.ana}, world.state.jobs.at(next.job));
  CHECK(why.reason == wire::WaitReason::kBudget);
  CHECK(why.message.find("is 30.00, and leaves 0.00: too little for 60.00") != std::string::npos);
  world.work(film, 1);
  world.schedule();
  CHECK(world.live().size() == 4);
  for (const auto& [lease, meter] : world.state.meters) CHECK(meter.held < units(5));
  world.work(film, 16);  // One at a time would need forty.
  CHECK(world.state.jobs.at(film).state == JobState::kSucceeded);
  CHECK(world.spent() == units(20).micros);
}

TEST_CASE("spend limit of a job of many units: a lower limit for one job binds what is submitted since") {
  Farm world;
  world.price(units(60), {});  // Half a unit of money for a frame.
  const auto at_most_for_one = [&](Money limit) {
    REQUIRE(world.run(SetQuota{world.acme, {.per_job = {.spend = limit}}}, world.root));
  };
  at_most_for_one(units(10));
  const JobId film{world.state.next_job};
  REQUIRE(world.run(world.film(12, 1), world.ana));
  world.work(film, 4);
  REQUIRE_FALSE(is_over(world.state.jobs.at(film).state));
  at_most_for_one(units(5));
  CHECK(world.run(world.film(12, 1, units(10)), world.ana).error().rule == "per_job.spend");
  world.work(film, 60);
  CHECK(world.state.jobs.at(film).state == JobState::kSucceeded);
  CHECK(world.spent() > units(5).micros);
}

TEST_CASE(
    "spend limit of a job of many units: what rounding frees of a hold is no reason to look who waits") {
  Farm world;
  world.price(units(1), {});
  Ask ask = gpus(1);
  ask.time = hours(1) - seconds(1);  // All of it costs no whole number of micro-units.
  const JobId job = world.submit(world.ana, ask);
  for (int i = 0; i < 2; ++i) world.submit(world.ana, ask);
  world.schedule();
  REQUIRE(world.live().size() == 2);  // And the third waits.
  const LeaseId lease = world.live().front();
  REQUIRE(world.report(lease, LeaseState::kRunning));
  std::size_t passes_due = 0;
  for (int i = 0; i < 60; ++i) {
    world.schedule();
    const Instant since = world.clock;
    world.clock += seconds(7);
    REQUIRE_FALSE(world.state.index.capacity->due(world.clock));
    REQUIRE(world.meter(world.state.leases.at(lease), since));
    if (world.state.index.capacity->due(world.clock)) ++passes_due;
  }
  CHECK(passes_due == 0);
  CHECK(world.state.jobs.at(job).charged > Money{});
}

TEST_CASE("spend limit of a job of many units: frames as long as they like, and it is never passed") {
  std::size_t done = 0, spent_up = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Farm world;
    world.node("gpu-02", 2);
    world.price(units(60), {});  // One a minute.
    Duration sum{};
    for (std::int64_t frame = 1; frame <= 30; ++frame)
      sum += world.takes[frame] = seconds(30) * (1 + static_cast<int>(random.below(8)));
    const Money needed{units(1).micros * (sum / seconds(30)) / 2};
    const Money limit{needed.micros / 2 + static_cast<std::int64_t>(random.below(3)) * needed.micros};
    const JobId film{world.state.next_job};
    const auto chunk = static_cast<std::uint32_t>(random.below(4));
    REQUIRE(world.run(world.film(30, chunk, limit), world.ana));
    for (int i = 0; i < 400 && !is_over(world.state.jobs.at(film).state); ++i) {
      world.work(film, 1);
      world.check_sums(film);
      CHECK(world.spent() <= limit.micros);
      CHECK(world.spent() <= units(1).micros * (world.ran / seconds(30)) / 2);
    }
    const Job& job = world.state.jobs.at(film);
    REQUIRE(is_over(job.state));
    CHECK(world.live().empty());
    CHECK(world.state.work.groups.at(film).held == Money{});
    CHECK(world.together > 1);
    done += job.state == JobState::kSucceeded;
    spent_up += job.reason == EndReason::kSpendLimit;
    if (limit > Money{needed.micros * 2}) CHECK(job.state == JobState::kSucceeded);
    if (limit < needed) CHECK(job.reason == EndReason::kSpendLimit);
  }
  CHECK(done > 3);
  CHECK(spent_up > 3);
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
