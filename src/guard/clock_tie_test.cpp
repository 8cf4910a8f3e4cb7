// SPDX-License-Identifier: Apache-2.0
#include "guard/clock_tie.hpp"

#include <doctest/doctest.h>

namespace tranche::guard {

TEST_CASE("clock tie: of the first the narrowest, later ones as narrow as is usual") {
  TieWidth width;
  CHECK(width.narrower(7'000));  // Code and data of the first call are not in the caches.
  CHECK(width.narrower(1'100));
  CHECK(!width.narrower(1'400));
  CHECK(width.usual(2'000));
  CHECK(!width.usual(7'000));
}

TEST_CASE("clock tie: a host that became slower is believed after a while, but not without bound") {
  TieWidth width;
  REQUIRE(width.narrower(1'000));
  int refused = 0;
  while (refused < 100 && !width.usual(8'000)) ++refused;
  CHECK(refused > 2);
  CHECK(refused < 20);
  for (int i = 0; i < 1000; ++i) CHECK(!width.usual(kTieLooseNs + 1));
}

}  // namespace tranche::guard
