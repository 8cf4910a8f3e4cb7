// SPDX-License-Identifier: Apache-2.0
#include "server/telemetry.hpp"

#include <doctest/doctest.h>

namespace tranche::server {
namespace {

using namespace std::chrono_literals;

wire::Heartbeat beat(std::uint16_t busy, Bytes vram, std::uint64_t device_nanoseconds = 0) {
  wire::Heartbeat heartbeat;
  heartbeat.devices = {{.uuid = "GPU-1", .busy_milli = busy, .vram_used = vram}};
  heartbeat.slices = {{.lease = {4}, .device = {2}, .device_nanoseconds = device_nanoseconds}};
  return heartbeat;
}

TEST_CASE("telemetry: a step holds the mean of what is a rate and the most of what is a level") {
  Telemetry telemetry({.step = 10s, .kept = 1h});
  const Instant start(1000s);
  telemetry.take({1}, beat(100, gigabytes(1)), start);
  telemetry.take({1}, beat(300, gigabytes(3)), start + 5s);
  telemetry.take({1}, beat(900, gigabytes(2)), start + 10s);
  const auto points = telemetry.points({1}, "GPU-1", {});
  REQUIRE(points.size() == 2);
  CHECK(points[0].at == start + 10s);
  CHECK(points[0].busy_milli == 200);
  CHECK(points[0].vram_used == gigabytes(3));
  CHECK(points[1].busy_milli == 900);
  CHECK(telemetry.points({1}, "GPU-1", start + 10s).size() == 1);
  CHECK(telemetry.points({2}, "GPU-1", {}).empty());
}

TEST_CASE("telemetry: what is older than it keeps is gone, however long it runs") {
  Telemetry telemetry({.step = 10s, .kept = 100s});
  for (int i = 0; i < 10'000; ++i) telemetry.take({1}, beat(1, {}), Instant(1000s) + i * 10s);
  CHECK(telemetry.points({1}, "GPU-1", {}).size() <= 11);
}

TEST_CASE("telemetry: how busy a slice is follows from two counts") {
  Telemetry telemetry;
  telemetry.take({1}, beat(0, {}, 1'000'000'000), Instant(100s));
  CHECK_FALSE(telemetry.slices().begin()->second.busy_milli);
  telemetry.take({1}, beat(0, {}, 2'000'000'000), Instant(104s));
  CHECK(telemetry.slices().begin()->second.busy_milli == 250);
  telemetry.take({1}, wire::Heartbeat{}, Instant(108s));
  CHECK(telemetry.slices().empty());
}

}  // namespace
}  // namespace tranche::server
