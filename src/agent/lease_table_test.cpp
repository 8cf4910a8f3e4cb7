// SPDX-License-Identifier: Apache-2.0
#include "agent/lease_table.hpp"

#include <doctest/doctest.h>

namespace tranche::agent {
namespace {

using namespace std::chrono_literals;
constexpr BootTime kSecond = 1'000'000'000;
constexpr Instant kBeat{1s};

TEST_CASE("lease table: a grant is taken once, and an older epoch never") {
  LeaseTable table;
  CHECK(table.offer({7}, 3, 0, 30 * kSecond) == Offer::kTake);
  CHECK(table.offer({7}, 3, 0, 30 * kSecond) == Offer::kKnown);
  CHECK(table.offer({7}, 2, 0, 30 * kSecond) == Offer::kStale);
  CHECK(table.offer({7}, 4, 0, 30 * kSecond) == Offer::kNewEpoch);
  CHECK(table.door({7}, 3) == Door::kStale);
  CHECK(table.door({7}, 4) == Door::kOpen);
  CHECK(table.door({8}, 4) == Door::kUnknown);
}

TEST_CASE("lease table: what has ended is not started again by the same grant") {
  LeaseTable table;
  table.offer({7}, 3, 0, 30 * kSecond);
  table.end({7});
  CHECK(table.offer({7}, 3, 0, 30 * kSecond) == Offer::kKnown);
  CHECK(table.offer({7}, 2, 0, 30 * kSecond) == Offer::kStale);
  CHECK(table.door({7}, 3) == Door::kUnknown);
  CHECK(table.expired(99 * kSecond).empty());
  CHECK(table.live() == 0);
}

TEST_CASE("lease table: a renewal counts from when the heartbeat was sent, however late its answer is") {
  LeaseTable table;
  table.offer({1}, 1, 0, 30 * kSecond);
  table.heartbeat_sent(kBeat, 10 * kSecond);
  const auto renewed = table.heartbeat_answered(kBeat, 30s);  // Whenever it comes: no clock is read.
  REQUIRE(renewed.size() == 1);
  CHECK(renewed.front().second == 40 * kSecond);
  CHECK(table.expired(40 * kSecond - 1).empty());
  CHECK(table.expired(40 * kSecond) == std::vector<LeaseId>{{1}});
}

TEST_CASE("lease table: answers that come twice, late, or to nobody renew nothing") {
  LeaseTable table;
  table.offer({1}, 1, 0, 30 * kSecond);
  table.heartbeat_sent(kBeat, 10 * kSecond);
  table.heartbeat_sent(kBeat + 5s, 15 * kSecond);
  CHECK(table.heartbeat_answered(kBeat + 9s, 30s).empty());
  CHECK(table.heartbeat_answered(kBeat + 5s, 30s).size() == 1);
  CHECK(table.heartbeat_answered(kBeat + 5s, 300s).empty());
  CHECK(table.heartbeat_answered(kBeat, 300s).empty());
  CHECK(table.next_expiry() == 45 * kSecond);
}

TEST_CASE("lease table: heartbeats of a link that broke renew nothing") {
  LeaseTable table;
  table.offer({1}, 1, 0, 30 * kSecond);
  table.heartbeat_sent(kBeat, 10 * kSecond);
  table.link_broken();
  CHECK(table.heartbeat_answered(kBeat, 30s).empty());
}

TEST_CASE("lease table: a lease granted after the heartbeat was sent is not renewed by it") {
  LeaseTable table;
  table.heartbeat_sent(kBeat, 10 * kSecond);
  table.offer({1}, 1, 11 * kSecond, 20 * kSecond);
  CHECK(table.heartbeat_answered(kBeat, 30s).empty());
  CHECK(table.expired(20 * kSecond).size() == 1);
}

TEST_CASE("lease table: a revoked lease lasts for its grace, whatever heartbeats say") {
  LeaseTable table;
  table.offer({1}, 1, 0, 30 * kSecond);
  table.revoke({1}, 12 * kSecond);
  table.heartbeat_sent(kBeat, 10 * kSecond);
  CHECK(table.heartbeat_answered(kBeat, 30s).empty());
  CHECK_FALSE(table.renew({1}, 1, 90 * kSecond));
  CHECK(table.expired(12 * kSecond).size() == 1);
}

TEST_CASE("lease table: a renewal by name needs the epoch, and never shortens") {
  LeaseTable table;
  table.adopt({1}, 5, 30 * kSecond);
  CHECK_FALSE(table.renew({1}, 4, 90 * kSecond));
  CHECK(table.renew({1}, 5, 20 * kSecond));
  CHECK(table.next_expiry() == 30 * kSecond);
  CHECK(table.renew({1}, 5, 50 * kSecond));
  CHECK(table.next_expiry() == 50 * kSecond);
}

}  // namespace
}  // namespace tranche::agent
