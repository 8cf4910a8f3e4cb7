// SPDX-License-Identifier: Apache-2.0
#include "policy/service_scaling.hpp"

#include <doctest/doctest.h>

namespace tranche::policy {
namespace {

using namespace std::chrono_literals;

TEST_CASE("service scaling: up at once, down only after a quiet while") {
  ServiceScaling scaling;
  const ScalingBounds bounds{.min = 1, .max = 4, .concurrency = 2};
  Instant now{1h};
  CHECK(scaling.wanted(bounds, {}, now) == 1);
  CHECK(scaling.wanted(bounds, {.in_flight = 5, .last_request = now}, now) == 3);
  CHECK(scaling.wanted(bounds, {.in_flight = 100, .last_request = now}, now) == 4);
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now}, now + 10s) == 4);
  CHECK(scaling.wanted(bounds, {.in_flight = 5, .last_request = now}, now + 20s) == 4);
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now}, now + 31s) ==
        3);  // The peak meanwhile.
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now}, now + 62s) == 1);
}

TEST_CASE("service scaling: to zero after the idle time, and back with the first request") {
  ServiceScaling scaling;
  const ScalingBounds bounds{.min = 0, .max = 2, .concurrency = 2, .idle = 60s};
  Instant now{1h};
  CHECK(scaling.wanted(bounds, {}, now) == 0);
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now}, now) == 1);
  CHECK(scaling.wanted(bounds, {.in_flight = 0, .last_request = now}, now + 59s) == 1);
  CHECK(scaling.wanted(bounds, {.in_flight = 0, .last_request = now}, now + 61s) == 0);
  CHECK(scaling.wanted(bounds, {.in_flight = 3, .last_request = now + 62s}, now + 62s) == 2);
}

}  // namespace
}  // namespace tranche::policy
