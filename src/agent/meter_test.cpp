// SPDX-License-Identifier: Apache-2.0
#include "agent/meter.hpp"

#include <doctest/doctest.h>
#include <memory>

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
constexpr Instant kBegan{1000s};

wire::LeaseGrant two_slices() {
  wire::LeaseGrant grant{.lease = {5}, .epoch = 2};
  grant.slices = {{.device = {1}}, {.device = {2}}};
  return grant;
}

TEST_CASE("meter: records follow each other without gap or overlap, over a restart too") {
  const auto page = std::make_unique<LeasePage>();
  const wire::LeaseGrant grant = two_slices();
  std::vector<wire::MeterRecord> all;
  Instant now = kBegan;
  for (int i = 1; i <= 5; ++i) {
    now += Duration(1'234'567 * i);
    const auto n = static_cast<std::uint64_t>(i);
    for (auto& record :
         take_meter(*page, grant, kBegan, now, {{.device_nanoseconds = 100 * n}, {.copied_bytes = n}}))
      all.push_back(record);
  }
  REQUIRE(all.size() == 10);
  std::int64_t busy = 0, copied = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].sequence == i + 1);
    CHECK(all[i].from == (i < 2 ? kBegan : all[i - 2].to));
    busy += all[i].device_nanoseconds;
    copied += all[i].copied_bytes;
  }
  CHECK(all.back().to == now);
  CHECK(busy == 500);
  CHECK(copied == 5);
}

TEST_CASE("meter: no time, no record; a clock set back loses nothing") {
  const auto page = std::make_unique<LeasePage>();
  const wire::LeaseGrant grant = two_slices();
  CHECK(take_meter(*page, grant, kBegan, kBegan, {{}, {}}).empty());
  CHECK(take_meter(*page, grant, kBegan, kBegan + 10s, {{.device_nanoseconds = 7}, {}}).size() == 2);
  CHECK(take_meter(*page, grant, kBegan, kBegan + 4s, {{.device_nanoseconds = 9}, {}}).empty());
  const auto next = take_meter(*page, grant, kBegan, kBegan + 11s, {{.device_nanoseconds = 10}, {}});
  REQUIRE(next.size() == 2);
  CHECK(next.front().from == kBegan + 10s);
  CHECK(next.front().device_nanoseconds == 3);
}

TEST_CASE("meter: what a job's network carried is on one record, once") {
  const auto page = std::make_unique<LeasePage>();
  page->network_bytes = 700;
  const auto first = take_meter(*page, two_slices(), kBegan, kBegan + 1s, {{}, {}});
  page->network_bytes = 1000;
  const auto second = take_meter(*page, two_slices(), kBegan, kBegan + 2s, {{}, {}});
  REQUIRE((first.size() == 2 && second.size() == 2));
  CHECK(first[0].network_bytes == 700);
  CHECK(second[0].network_bytes == 300);
  CHECK(first[1].network_bytes + second[1].network_bytes == 0);
}

TEST_CASE("meter: memory and energy over time, without overflow on the largest devices") {
  const auto page = std::make_unique<LeasePage>();
  const auto records = take_meter(
      *page, two_slices(), kBegan, kBegan + 3600s, {{.vram = gibibytes(192), .milliwatts = 700'000}, {}});
  CHECK(records.front().vram_byte_seconds == 3600 * gibibytes(192).count);
  CHECK(records.front().energy_millijoules == std::int64_t{700'000} * 3600);
}

TEST_CASE("meter: a counter that was begun anew is not taken back") {
  const auto page = std::make_unique<LeasePage>();
  const wire::LeaseGrant grant = two_slices();
  (void)take_meter(*page, grant, kBegan, kBegan + 1s, {{.device_nanoseconds = 500}, {}});
  const auto next = take_meter(*page, grant, kBegan, kBegan + 2s, {{.device_nanoseconds = 20}, {}});
  CHECK(next.front().device_nanoseconds == 20);
}

}  // namespace
}  // namespace tranche::agent
