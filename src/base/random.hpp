// SPDX-License-Identifier: Apache-2.0
#pragma once
// SplitMix64: 64 bits of state, the same sequence on every compiler. std::uniform_int_distribution is not.
#include <cstdint>

namespace tranche {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound): a multiply-shift with rejection, so that no value is favoured.
  constexpr std::uint64_t below(std::uint64_t bound) {
    if (bound <= 1) return 0;
    const std::uint64_t threshold = (0 - bound) % bound;
    for (;;) {
      const std::uint64_t draw = next();
      if (draw >= threshold) return draw % bound;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace tranche
