// SPDX-License-Identifier: Apache-2.0
#include "policy/demand_forecast.hpp"

#include <doctest/doctest.h>

namespace tranche::policy {
namespace {

constexpr Seconds kHour = DemandForecast::kHour;

TEST_CASE("demand forecast: nothing is expected before anything was seen") {
  CHECK_FALSE(DemandForecast{}.expect(0));
}

TEST_CASE("demand forecast: work counts in every hour that it covers, by the part it covers") {
  DemandForecast forecast;
  forecast.observe(kHour / 2, 2 * kHour + kHour / 4, 1000);
  const Seconds next_week = 168 * kHour;
  CHECK(forecast.expect(next_week) == 500);
  CHECK(forecast.expect(next_week + kHour) == 1000);
  CHECK(forecast.expect(next_week + 2 * kHour) == 250);
  CHECK_FALSE(forecast.expect(next_week + 3 * kHour));
}

TEST_CASE(
    "demand forecast: a week is learned, weekends too; until then the same hour of the day before is "
    "believed") {
  DemandForecast forecast;
  const auto pattern = [](Seconds hour) { return 100 + 50 * (hour % 24) + (hour / 24 % 7 >= 5 ? 0 : 400); };
  const auto watch = [&](Seconds from, Seconds until, std::int64_t times) {
    for (Seconds hour = from; hour < until; ++hour)
      forecast.observe(hour * kHour, (hour + 1) * kHour, pattern(hour) * times);
  };
  watch(0, 72, 1);
  CHECK(forecast.expect(75 * kHour) == pattern(51));
  watch(72, 168 * 2, 1);
  for (Seconds hour = 168 * 2; hour < 168 * 3; ++hour) CHECK(forecast.expect(hour * kHour) == pattern(hour));
  // A week twice as busy: newer weeks count more, so two thirds of the rise are followed at once.
  watch(168 * 2, 168 * 3, 2);
  const Seconds later = 168 * 3 + 30;
  CHECK(*forecast.expect(later * kHour) > pattern(later) * 3 / 2);
  CHECK(*forecast.expect(later * kHour) < pattern(later) * 2);
}

TEST_CASE("demand forecast: the order of observations does not matter") {
  DemandForecast forwards;
  DemandForecast backwards;
  for (Seconds hour = 0; hour < 400; ++hour) {
    forwards.observe(hour * kHour, hour * kHour + 5000, hour);
    backwards.observe((399 - hour) * kHour, (399 - hour) * kHour + 5000, 399 - hour);
  }
  for (Seconds hour = 400; hour < 500; ++hour)
    CHECK(forwards.expect(hour * kHour) == backwards.expect(hour * kHour));
}

}  // namespace
}  // namespace tranche::policy
