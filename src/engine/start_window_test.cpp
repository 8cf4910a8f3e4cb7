// SPDX-License-Identifier: Apache-2.0
#include "engine/start_window.hpp"

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "engine/lease_meter.hpp"
#include "engine/snapshot.hpp"
#include "engine/why.hpp"
#include "engine/world.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using wire::WindowEnd;

Instant at(std::string_view text) {
  return *parse_instant(text);
}

// Madrid as the law has it in 2026: an hour ahead of UTC, two from 29 March to 25 October, each at 01:00 UTC.
StartWindow madrid(std::uint32_t from, std::uint32_t to, WindowEnd at_end = WindowEnd::kFinish) {
  return {
      .from_minute = from * 60,
      .to_minute = to * 60,
      .zone = "Europe/Madrid",
      .at_end = at_end,
      .offsets = {{Instant{}, 3600}, {at("2026-03-29T01:00:00Z"), 7200}, {at("2026-10-25T01:00:00Z"), 3600}}};
}

TEST_CASE("start window: it opens and closes at its local hours, in winter and in summer") {
  const StartWindow nights = madrid(22, 6);
  CHECK(text(nights) == "22:00-06:00 Europe/Madrid");
  CHECK(open_span(nights, at("2026-01-10T12:00:00Z")).from == at("2026-01-10T21:00:00Z"));
  CHECK(open_span(nights, at("2026-01-10T12:00:00Z")).to == at("2026-01-11T05:00:00Z"));
  CHECK(open_span(nights, at("2026-07-10T12:00:00Z")).from == at("2026-07-10T20:00:00Z"));
  CHECK(is_open(nights, at("2026-01-11T04:59:59Z")));
  CHECK_FALSE(is_open(nights, at("2026-01-11T05:00:00Z")));
  // Inside, what is left of it.
  CHECK(open_span(nights, at("2026-01-11T00:30:00Z")).from == at("2026-01-11T00:30:00Z"));
  CHECK(open_span(nights, at("2026-01-11T00:30:00Z")).to == at("2026-01-11T05:00:00Z"));
  // A span by day, in the same zone.
  CHECK(open_span(madrid(9, 17), at("2026-01-10T18:00:00Z")).from == at("2026-01-11T08:00:00Z"));
}

TEST_CASE("start window: nights on which the clocks change are shorter or longer, and never missing") {
  const StartWindow nights = madrid(22, 6);
  CHECK(open_span(nights, at("2026-03-28T21:00:00Z")).to == at("2026-03-29T04:00:00Z"));  // Seven hours.
  CHECK(open_span(nights, at("2026-10-24T20:00:00Z")).to == at("2026-10-25T05:00:00Z"));  // Nine.
  // 02:00 to 03:00 does not exist on 29 March: the next is on the 30th, in summer time.
  CHECK(open_span(madrid(2, 3), at("2026-03-29T00:00:00Z")).from == at("2026-03-30T00:00:00Z"));
  // From 02:00 on, it opens when the clocks have passed the gap.
  CHECK(open_span(madrid(2, 5), at("2026-03-29T00:00:00Z")).from == at("2026-03-29T01:00:00Z"));
  // 02:00 is shown twice on 25 October: the first counts.
  CHECK(open_span(madrid(2, 5), at("2026-10-24T22:00:00Z")).from == at("2026-10-25T00:00:00Z"));
}

struct Offpeak : World {
  PartyId acme = create(PartyKind::kTenant, kPlatform, "acme");
  PartyId ana = user(acme, "ana");
  NodeId machine = node("gpu-01", 1);
  Offpeak() { clock = at("2026-01-10T12:00:00Z"); }

  static Ask nightly(WindowEnd at_end = WindowEnd::kFinish) {
    Ask ask = gpus(1);
    ask.window = madrid(22, 6, at_end);
    return ask;
  }
  const Job& job(JobId id) { return state.jobs.at(id); }
  std::string why(JobId id) { return explain(state, *actor_of(state, envelope(ana)), job(id)).message; }
  void price_by_hour() {  // 22:00 to 04:00 UTC is cheap.
    const PriceList list{
        .name = "list",
        .rules = {{.name = "night", .minute_from = 22 * 60, .minute_to = 4 * 60, .gpu_hour = units(1)},
                  {.name = "day", .gpu_hour = units(3)}}};
    TRANCHE_CHECK(run(SetPriceList{list}, root).has_value());
  }
};

TEST_CASE("start window: a job waits for its hours, says so, and then starts by itself") {
  Offpeak world;
  const JobId id = world.submit(world.ana, Offpeak::nightly());
  CHECK(world.schedule() == 0);
  CHECK(world.why(id) ==
        "waits for its window 22:00-06:00 Europe/Madrid, which opens at 2026-01-10T21:00:00Z");
  CHECK(world.state.index.capacity->next_delayed(world.clock) == at("2026-01-10T21:00:00Z"));
  world.clock = at("2026-01-10T20:59:59Z");
  CHECK_FALSE(schedule_due(world.state, world.clock));
  world.clock = at("2026-01-10T21:00:00Z");
  CHECK(world.schedule() == 1);
}

TEST_CASE("start window: whoever waits for his hours is ahead of nobody before them") {
  Offpeak world;
  world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 1);
  world.submit(world.ana, Offpeak::nightly());
  const JobId id = world.submit(world.ana, gpus(1));
  world.schedule();
  const auto ahead = [&] {
    return explain(world.state, *actor_of(world.state, world.envelope(world.ana)), world.job(id)).ahead_count;
  };
  CHECK(ahead() == 0);
  world.clock = at("2026-01-10T22:00:00Z");
  world.schedule();
  CHECK(ahead() == 1);
}

TEST_CASE("start window: one that found no room in its hours waits for the next") {
  Offpeak world;
  const JobId other = world.submit(world.ana, gpus(1));
  CHECK(world.schedule() == 1);
  const JobId id = world.submit(world.ana, Offpeak::nightly());
  world.clock = at("2026-01-10T22:00:00Z");
  CHECK(world.schedule() == 0);
  world.clock = at("2026-01-11T08:00:00Z");
  const LeaseId lease = world.job(other).leases.front();
  REQUIRE(world.report(lease, LeaseState::kRunning));
  REQUIRE(world.scrub(lease));
  REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kExited));
  CHECK(world.schedule() == 0);
  CHECK(world.job(id).state == JobState::kPending);
  world.clock = at("2026-01-11T21:00:00Z");
  CHECK(world.schedule() == 1);
}

TEST_CASE("start window: at its end a job finishes, or saves its work and goes on in the next") {
  for (const WindowEnd how : {WindowEnd::kFinish, WindowEnd::kStop}) {
    Offpeak world;
    const JobId id = world.submit(world.ana, Offpeak::nightly(how));
    world.clock = at("2026-01-10T23:00:00Z");
    CHECK(world.schedule() == 1);
    const LeaseId lease = world.job(id).leases.front();
    REQUIRE(world.report(lease, LeaseState::kRunning));
    auto restored = decode_state(encode_state(world.state));
    REQUIRE(restored);
    CHECK(restored->index.work->closings == world.state.index.work->closings);
    world.clock = at("2026-01-11T05:00:00Z");
    world.schedule();
    CHECK(world.state.leases.at(lease).revoked == (how == WindowEnd::kStop));
    if (how == WindowEnd::kFinish) continue;
    CHECK(world.state.leases.at(lease).revoke_reason == EndReason::kWindowClosed);
    REQUIRE(world.scrub(lease));
    REQUIRE(world.report(lease, LeaseState::kEnded, EndReason::kWindowClosed));
    CHECK(world.job(id).state == JobState::kPending);
    CHECK(world.schedule() == 0);
    world.clock = at("2026-01-11T21:00:00Z");
    CHECK(world.schedule() == 1);
    CHECK(world.job(id).attempts == 2);
  }
}

TEST_CASE("start window: a window that opens too late for the deadline is refused with what would do") {
  Offpeak world;
  Ask ask = Offpeak::nightly();
  ask.time = hours(4);
  ask.deadline = at("2026-01-11T00:30:00Z");
  const auto refused = world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "window");
  CHECK(refused.error().fix ==
        "give a deadline of 2026-01-11T01:00:00Z or later, or a window that opens before");
  ask.deadline = at("2026-01-11T01:00:00Z");
  CHECK(world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana));
}

TEST_CASE("cheapest: it starts when the whole run costs least, and says what it saves") {
  Offpeak world;
  world.price_by_hour();
  Ask ask = gpus(1);
  ask.cheapest = true;
  ask.time = hours(2);
  ask.deadline = at("2026-01-11T12:00:00Z");
  const JobId id = world.submit(world.ana, ask);
  CHECK(world.job(id).not_before == at("2026-01-10T22:00:00Z"));
  CHECK(world.schedule() == 0);
  CHECK(world.why(id) ==
        "waits for the cheapest start before its deadline, 2026-01-10T22:00:00Z: at most 2.00 USD then, 6.00 "
        "now");
  world.clock = at("2026-01-10T22:00:00Z");
  CHECK(world.schedule() == 1);
}

TEST_CASE("cheapest: what a run may cost is rounded once, whatever instant its prices change at") {
  Offpeak world;
  world.price_by_hour();
  Ask ask = gpus(1);
  ask.time = hours(2);
  const StartPrices prices(world.state, world.ana, ask, Admission::kWithinQuota);
  // Midnight cuts the run in two parts that are no whole micro-units.
  CHECK(text(prices.most(at("2026-01-10T23:00:00Z") + Duration(333))) == "2.00");
}

TEST_CASE("cheapest: the deadline goes first, and with a window only its hours count") {
  Offpeak world;
  world.price_by_hour();
  Ask ask = gpus(1);
  ask.cheapest = true;
  ask.time = hours(2);
  ask.deadline = at("2026-01-10T15:00:00Z");  // Before any cheap hour: now is as good as later.
  CHECK(world.job(world.submit(world.ana, ask)).not_before == Instant{});
  // Only its end can lie in the cheap hours: it starts as late as it may.
  ask.deadline = at("2026-01-10T23:00:00Z");
  CHECK(world.job(world.submit(world.ana, ask)).not_before == at("2026-01-10T21:00:00Z"));
  // Madrid's hours from 02:00 to 06:00 open at 01:00 UTC.
  ask.deadline = at("2026-01-11T12:00:00Z");
  ask.window = madrid(2, 6, WindowEnd::kStop);
  CHECK(world.job(world.submit(world.ana, ask)).not_before == at("2026-01-11T01:00:00Z"));
  ask.time = hours(5);  // Longer than the window: it would be cut off.
  const auto refused = world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().rule == "window");
}

TEST_CASE("cheapest: without a deadline or a time limit there is nothing to choose from") {
  Offpeak world;
  Ask ask = gpus(1);
  ask.cheapest = true;
  ask.deadline = world.clock + hours(10);
  CHECK(world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana).error().rule == "cheapest");
  ask.time = hours(11);
  const auto late = world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana);
  REQUIRE_FALSE(late);
  CHECK(late.error().rule == "deadline");
  ask.time = hours(10);
  CHECK(world.run(SubmitJob{.ask = ask, .spec = "{}"}, world.ana));
}

TEST_CASE("cheapest: the chunks of a render wait with it") {
  Offpeak world;
  world.price_by_hour();
  Ask ask = gpus(1);
  ask.cheapest = true;
  ask.time = hours(1);
  ask.deadline = at("2026-01-11T12:00:00Z");
  REQUIRE(world.run(
      SubmitJob{.ask = ask, .spec = "{}", .unit = WorkUnit::kFrame, .units = {1, 4}, .chunk = 2}, world.ana));
  CHECK(world.schedule() == 0);
  CHECK(world.state.jobs.size() == 1);
  world.clock = at("2026-01-10T22:00:00Z");
  CHECK(world.schedule() == 1);
}

}  // namespace
}  // namespace tranche::engine
