// SPDX-License-Identifier: Apache-2.0
#include "guard/device_queue.hpp"

#include <doctest/doctest.h>

namespace tranche::guard {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kLong = 1'000 * kMs;

TEST_CASE("device queue: work began when the work before it ended, whoever's that was") {
  DeviceQueue queue;
  queue.accept(1, kMs, 2 * kMs, 2 * kMs);
  queue.accept(2, kMs, kMs, kMs);  // Takes 5 ms in truth.
  queue.accept(1, 2 * kMs, 4 * kMs, 2 * kMs);
  queue.ended(1, 2 * kMs, 3 * kMs);
  queue.ended(2, kMs, 8 * kMs);
  CHECK(queue.busy_until() == 10 * kMs);
  queue.ended(1, 4 * kMs, 10 * kMs);
  const auto settled = queue.settle(kLong);
  REQUIRE(settled.size() == 3);
  CHECK(settled[0].took_ns == 2 * kMs);
  CHECK(settled[1].took_ns == 5 * kMs);
  CHECK(settled[1].began_at == 3 * kMs);
  CHECK(settled[2].took_ns == 2 * kMs);
  CHECK(settled[2].began_at == 8 * kMs);
  CHECK(settled[2].exact);
}

TEST_CASE("device queue: ends told out of order are waited for, and then exact") {
  DeviceQueue queue;
  queue.accept(1, 0, 2 * kMs, 2 * kMs);
  queue.accept(2, 0, 2 * kMs, 2 * kMs);
  queue.ended(2, 2 * kMs, 7 * kMs);
  CHECK(queue.settle(8 * kMs).empty());
  queue.ended(1, 2 * kMs, 6 * kMs);
  const auto settled = queue.settle(8 * kMs);
  REQUIRE(settled.size() == 2);
  CHECK(settled[0].took_ns == 6 * kMs);
  CHECK(settled[1].took_ns == kMs);
}

TEST_CASE("device queue: what is too much was taken by those who do not tell, and all of it by somebody") {
  DeviceQueue queue;
  queue.accept(1, 0, 20, 20);  // Claims next to nothing, runs 3 ms, and never tells.
  queue.accept(2, 0, 2 * kMs, 2 * kMs);
  queue.ended(2, 2 * kMs, 5 * kMs);
  CHECK(queue.settle(6 * kMs).empty());
  const auto settled = queue.settle(kLong);
  REQUIRE(settled.size() == 2);
  CHECK(settled[1].took_ns == 2 * kMs);
  CHECK(settled[0].took_ns + settled[1].took_ns == 5 * kMs);
  CHECK_FALSE(settled[1].exact);
}

TEST_CASE("device queue: an idle device is nobody's time") {
  DeviceQueue queue;
  queue.accept(1, 0, 2 * kMs, 2 * kMs);
  queue.ended(1, 2 * kMs, 2 * kMs);
  queue.accept(2, 50 * kMs, 2 * kMs, 2 * kMs);
  queue.ended(2, 2 * kMs, 52 * kMs);
  const auto settled = queue.settle(kLong);
  REQUIRE(settled.size() == 2);
  CHECK(settled[1].took_ns == 2 * kMs);
}

TEST_CASE("device queue: it may be built upon only after ends have come as foreseen, again and again") {
  DeviceQueue queue;
  std::uint64_t mark = 0;
  std::uint64_t now = 0;
  const auto run = [&](std::uint64_t took) {
    queue.accept(1, now, mark += 2 * kMs, 2 * kMs);
    queue.ended(1, mark, now += took);
    queue.settle(now);
  };
  for (int i = 0; i < 7; ++i) run(2 * kMs);
  CHECK_FALSE(queue.well_foreseen());
  run(2 * kMs);
  CHECK(queue.well_foreseen());
  run(3 * kMs);
  CHECK_FALSE(queue.well_foreseen());
}

TEST_CASE(
    "device queue: whoever claims to run in front of what has ended is doubtful, and can be forgotten") {
  DeviceQueue queue;
  queue.accept(1, 0, 60 * kLong, 60 * kLong);
  queue.accept(2, 0, 2 * kMs, 2 * kMs);
  queue.ended(2, 2 * kMs, 3 * kMs);
  REQUIRE(queue.doubtful().size() == 1);
  CHECK(queue.doubtful()[0] == 1);
  queue.forget(1);
  CHECK(queue.busy_until() == 3 * kMs);
  CHECK(queue.ends_at(1) == 0);
}

}  // namespace
}  // namespace tranche::guard
