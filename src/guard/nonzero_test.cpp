// SPDX-License-Identifier: Apache-2.0
#include "guard/nonzero.hpp"

#include <doctest/doctest.h>
#include <vector>

namespace tranche::guard {

TEST_CASE("nonzero: every byte counts once, wherever it lies") {
  for (const std::size_t size : {0U, 1U, 7U, 4095U, 4096U, 4097U, 10'000U}) {
    std::vector<unsigned char> bytes(size, 0);
    CHECK(count_nonzero(bytes.data(), size) == 0);
    for (std::size_t i = 0; i < size; i += 997) {
      bytes[i] = static_cast<unsigned char>(1 + i % 255);
      CHECK(count_nonzero(bytes.data(), size) == i / 997 + 1);
    }
  }
}

}  // namespace tranche::guard
