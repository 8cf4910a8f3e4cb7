// SPDX-License-Identifier: Apache-2.0
// What work costs by the unit, before it is done.
#include "engine/unit_price.hpp"

#include "engine/film_world.hpp"
#include "engine/plan_price.hpp"

namespace tranche::engine {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

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

}  // namespace
}  // namespace tranche::engine
