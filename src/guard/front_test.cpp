// SPDX-License-Identifier: Apache-2.0
#include "guard/front.hpp"

#include <doctest/doctest.h>
#include <memory>

namespace tranche::guard {

TEST_CASE("front: copies are charged at the rate that was measured, and contention raises it only slowly") {
  const auto control = std::make_unique<ControlRegion>();
  const auto ledger = std::make_unique<LedgerRegion>();
  control->devices[0].vram_limit.store(1 << 30);
  adopt_regions(control.get(), ledger.get(), -1);
  constexpr std::uint64_t kMiB = 1 << 20;
  learn_copy_rate(16 * kMiB, 16 * 300'000);
  CHECK(before_copy(0, 4 * kMiB).predicted_ns == 4 * 300'000);
  learn_copy_rate(16 * kMiB, 16 * 30'000'000);  // Stood behind somebody else's copies.
  const std::uint64_t after = before_copy(0, kMiB).predicted_ns;
  CHECK(after > 300'000);
  CHECK(after <= 300'000 + 300'000 / 64);
  learn_copy_rate(16 * kMiB, 16 * 200'000);
  CHECK(before_copy(0, kMiB).predicted_ns == 200'000);
  detach_for_test();
}

}  // namespace tranche::guard
