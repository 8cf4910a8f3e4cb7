// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <doctest/doctest.h>

#include "base/random.hpp"

namespace tranche {
namespace {

using namespace std::chrono_literals;

TEST_CASE("text: an instant is RFC 3339 in UTC, with only the decimals it has") {
  CHECK(text(Instant(0s)) == "1970-01-01T00:00:00Z");
  CHECK(text(Instant(1'794'773'395s)) == "2026-11-15T20:09:55Z");
  CHECK(text(Instant(1'794'773'395s + 120ms)) == "2026-11-15T20:09:55.12Z");
  CHECK(text(Instant(-1us)) == "1969-12-31T23:59:59.999999Z");
  CHECK(text(Instant::max()) == "9999-12-31T23:59:59.999999Z");
  CHECK(text(Instant::min()) == "0000-01-01T00:00:00Z");
}

TEST_CASE("text: an offset is read and folded into UTC; an impossible date is no instant") {
  CHECK(parse_instant("2026-11-15T21:09:55+01:00") == Instant(1'794'773'395s));
  CHECK(parse_instant("2026-11-15t20:09:55.5z") == Instant(1'794'773'395s + 500ms));
  for (const char* wrong : {"",
                            "2026-02-29T00:00:00Z",
                            "2026-11-15",
                            "2026-11-15T24:00:00Z",
                            "2026-11-15T20:09:55",
                            "2026-11-15T20:09:55Zx",
                            "2026-11-15T20:09:55.Z",
                            "26-11-15T20:09:55Z"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_instant(wrong));
  }
}

TEST_CASE("text: a duration is written in hours, minutes, seconds and less") {
  CHECK(text(Duration(90min)) == "1h30m");
  CHECK(text(Duration(90s)) == "1m30s");
  CHECK(text(Duration(0)) == "0s");
  CHECK(text(Duration(49h)) == "49h");
  CHECK(text(Duration(-1500ms)) == "-1s500ms");
  CHECK(parse_duration("30m") == Duration(30min));
  CHECK(parse_duration("2d") == Duration(48h));
  CHECK(parse_duration("1.5h") == Duration(90min));
  CHECK(parse_duration("90") == Duration(90s));
  for (const char* wrong : {"", "-", "1h30", "h", "1x", "1.0000001s", "9223372036854775807h", "1 h"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_duration(wrong));
  }
}

TEST_CASE("text: money keeps two decimals, and six where they matter") {
  CHECK(text(Money{1'250'000}) == "1.25");
  CHECK(text(units(3)) == "3.00");
  CHECK(text(Money{1}) == "0.000001");
  CHECK(text(Money{-500'000}) == "-0.50");
  CHECK(text(Money{INT64_MIN}) == "-9223372036854.775808");
  CHECK(parse_money("2") == units(2));
  CHECK(parse_money("0.000001") == Money{1});
  for (const char* wrong : {"", ".5", "1.", "1.0000001", "1e3", "9999999999999999999", "1,5"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_money(wrong));
  }
}

TEST_CASE("text: GB is ten to the nine and GiB two to the thirty") {
  CHECK(parse_bytes("20GB") == gigabytes(20));
  CHECK(parse_bytes("20gib") == gibibytes(20));
  CHECK(parse_bytes("1.5 GiB") == Bytes{1'610'612'736});
  CHECK(parse_bytes("17") == Bytes{17});
  CHECK(text(gigabytes(20)) == "20GB");
  CHECK(text(gibibytes(3)) == "3GiB");
  CHECK(text(Bytes{17}) == "17B");
  CHECK(text(Bytes{0}) == "0B");
  for (const char* wrong :
       {"", "GB", "1.3B", "20 G B", "20GBs", "99999999999999999999GB", "9223372036854775807GB"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_bytes(wrong));
  }
}

TEST_CASE("text: whatever is written is read back") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto value = static_cast<std::int64_t>(random.next() >> random.below(63)) >> 1;
    CHECK(parse_duration(text(Duration(value))) == Duration(value));
    CHECK(parse_money(text(Money{value})) == Money{value});
    CHECK(parse_bytes(text(Bytes{value})) == Bytes{value});
    const Instant at(Duration(value % 60'000'000'000'000'000));
    CHECK(parse_instant(text(at)) == at);
  }
}

TEST_CASE("text: a word is replaced wherever it stands, and never inside what replaced it") {
  CHECK(replaced("{a} and {a}", "{a}", "{a}{a}") == "{a}{a} and {a}{a}");
  CHECK(replaced("nothing here", "{a}", "x") == "nothing here");
  CHECK(replaced("aaa", "aa", "") == "a");
}

}  // namespace
}  // namespace tranche
