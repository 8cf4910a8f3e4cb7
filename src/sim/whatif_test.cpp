// SPDX-License-Identifier: Apache-2.0
#include "sim/whatif.hpp"

#include <algorithm>
#include <doctest/doctest.h>

#include "sim/advise.hpp"
#include "sim/whatif_csv.hpp"

namespace tranche::sim {
namespace {

WhatIfJob half(std::int64_t submit, std::string tenant) {
  WhatIfJob job{.submit = submit, .duration = 100, .tenant = std::move(tenant), .busy_milli = 500};
  job.ask.instances = 1;
  job.ask.milli_each = 500;
  job.ask.vram_each = 10'000'000'000;
  return job;
}

WhatIfWorld four_halves_on_two_devices() {
  WhatIfWorld world{.fleet = {{.nodes = 1, .devices = 2, .model = "H100-SXM5-80GB"}}};
  for (int i = 0; i < 4; ++i) world.jobs.push_back(half(0, i % 2 == 0 ? "acme" : "blue"));
  return world;
}

}  // namespace

TEST_CASE("what if: four halves share two devices at once, and take turns when each wants a device alone") {
  const WhatIfWorld world = four_halves_on_two_devices();
  const WhatIfReport shared = what_if(world, {.sharing = Sharing::kAsAsked});
  const WhatIfReport alone = what_if(world, {.sharing = Sharing::kDedicated});
  CHECK(shared.unfinished == 0);
  CHECK(alone.unfinished == 0);
  CHECK(shared.waits.max_seconds == 0);
  CHECK(shared.makespan_seconds == 100);
  CHECK(alone.makespan_seconds >= 200);
  CHECK(alone.waits.max_seconds >= 100);
  // The work is the same; only what the fleet costs for it differs. 4 x 100 s x half a device.
  CHECK(shared.work_device_hours == doctest::Approx(200.0 / 3600.0));
  CHECK(alone.work_device_hours == doctest::Approx(200.0 / 3600.0));
  CHECK(shared.fleet_hours_per_work_hour == doctest::Approx(1.0));
  CHECK(alone.fleet_hours_per_work_hour >= 2.0);
}

TEST_CASE("what if: the same world gives the same report, twice") {
  WhatIfWorld world = four_halves_on_two_devices();
  for (int i = 0; i < 60; ++i) world.jobs.push_back(half(10 + i * 7, i % 3 == 0 ? "acme" : "blue"));
  const std::string first = what_if_json(what_if(world, {}), {});
  CHECK(first == what_if_json(what_if(world, {}), {}));
  CHECK(first.find("\"simulated\": true") != std::string::npos);
}

TEST_CASE("what if: a job that fits nowhere is counted, by name of the reason or as unfinished") {
  WhatIfWorld world = four_halves_on_two_devices();
  WhatIfJob huge = half(1, "acme");
  huge.ask.vram_each = 500'000'000'000;
  world.jobs.push_back(huge);
  const WhatIfReport report = what_if(world, {});
  CHECK(report.refused + report.unfinished == 1);
}

TEST_CASE("what if: a limit of the quota tree holds a tenant back, and nobody else") {
  WhatIfWorld world = four_halves_on_two_devices();
  parse_share("acme=0.5..0.5", world.quotas);
  const WhatIfReport report = what_if(world, {});
  CHECK(report.by_tenant.at("blue").waits.max_seconds == 0);
  CHECK((report.refused == 1 || report.by_tenant.at("acme").waits.max_seconds >= 100));
}

TEST_CASE("what if: fleets and shares that make no sense are named") {
  CHECK(parse_fleet("8x4xH100-SXM5-80GB").devices == 4);
  CHECK_THROWS_AS(parse_fleet("8"), std::invalid_argument);
  CHECK_THROWS_AS(parse_fleet("0x8xH100-SXM5-80GB"), std::invalid_argument);
  CHECK_THROWS_AS(parse_fleet("8x8xABACUS"), std::invalid_argument);
  std::map<std::string, wire::Quota> quotas;
  CHECK_THROWS_AS(parse_share("acme", quotas), std::invalid_argument);
  CHECK_THROWS_AS(parse_share("acme=lots", quotas), std::invalid_argument);
}

TEST_CASE(
    "advise: nodes that were not needed are named, with the run that shows it, and needed ones are not") {
  WhatIfWorld world{.fleet = {{.nodes = 6, .devices = 2, .model = "H100-SXM5-80GB"}}};
  for (int i = 0; i < 40; ++i) world.jobs.push_back(half(i * 50, "acme"));
  const AdviceReport idle = advise(world, 0);
  REQUIRE_FALSE(idle.advice.empty());
  CHECK(idle.advice.front().what.starts_with("1 of the 6 nodes"));
  CHECK(idle.advice.front().saves_device_hours_a_day == doctest::Approx(240.0));
  CHECK(idle.advice.front().evidence.find("2 devices") != std::string::npos);

  world.fleet.front().nodes = 1;
  for (const Advice& advice : advise(world, 0).advice)
    CHECK(advice.what.find("nodes would") == std::string::npos);
}

TEST_CASE("advise: a tenant that holds more than it uses is told so") {
  WhatIfWorld world = four_halves_on_two_devices();
  for (WhatIfJob& job : world.jobs) job.busy_milli = job.tenant == "acme" ? 50 : 500;
  const AdviceReport report = advise(world, 0);
  const auto about = [&](std::string_view who) {
    return std::count_if(report.advice.begin(), report.advice.end(), [&](const Advice& advice) {
      return advice.what.starts_with(who);
    });
  };
  CHECK(about("acme keeps 10.0 %") == 1);
  CHECK(about("blue") == 0);
}

}  // namespace tranche::sim
