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

TEST_CASE(
    "service scaling: by queue delay a replica is added only when requests wait too long, one at a time") {
  ServiceScaling scaling;
  const ScalingBounds bounds{.min = 1, .max = 4, .concurrency = 2, .delay = 200ms, .patience = 10s};
  Instant now{1h};
  ScalingDemand demand{.in_flight = 20, .last_request = now, .ready = 1, .waited = 150ms};
  CHECK(scaling.wanted(bounds, demand, now) == 1);  // By concurrency it would be four.
  demand.waited = 250ms;
  CHECK(scaling.wanted(bounds, demand, now) == 2);
  CHECK(scaling.wanted(bounds, demand, now + 20s) == 2);  // The second is not ready yet.
  demand.ready = 2;
  CHECK(scaling.wanted(bounds, demand, now + 21s) == 3);
  demand.ready = 3;
  CHECK(scaling.wanted(bounds, demand, now + 25s) == 3);  // Too soon to see what the third did.
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now + 25s, .ready = 3}, now + 26s) == 3);
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now + 25s, .ready = 3}, now + 60s) < 3);
}

TEST_CASE("service scaling: a missed objective is a reason for one more, up to the most") {
  ServiceScaling scaling;
  const ScalingBounds bounds{.min = 1, .max = 2, .concurrency = 100, .patience = 10s};
  Instant now{1h};
  const ScalingDemand demand{.in_flight = 1, .last_request = now, .ready = 1, .is_late = true};
  CHECK(scaling.wanted(bounds, {.in_flight = 1, .last_request = now, .ready = 1}, now) == 1);
  CHECK(scaling.wanted(bounds, demand, now) == 2);
  CHECK(scaling.wanted(
            bounds, {.in_flight = 1, .last_request = now, .ready = 2, .is_late = true}, now + 30s) == 2);
}

}  // namespace
}  // namespace tranche::policy
