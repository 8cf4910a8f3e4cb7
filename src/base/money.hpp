// SPDX-License-Identifier: Apache-2.0
#pragma once
// Money is a whole number of micro-units of a currency; there is no floating point in it.
#include <compare>
#include <cstdint>
#include <optional>

namespace tranche {

__extension__ using Int128 = __int128;  // Products of two int64 fit; -Wpedantic is told so once.

struct Money {
  std::int64_t micros = 0;
  friend constexpr auto operator<=>(const Money&, const Money&) = default;
};

constexpr Money units(std::int64_t whole) {
  return {whole * 1'000'000};
}

// nullopt when the sum does not fit: callers refuse, they never wrap.
constexpr std::optional<Money> add(Money a, Money b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a.micros, b.micros, &sum)) return std::nullopt;
  return Money{sum};
}

// rate * numerator / denominator, rounded up: the platform never gives away a fraction.
constexpr std::optional<Money> scale_ceil(Money rate, std::int64_t numerator, std::int64_t denominator) {
  const Int128 product = static_cast<Int128>(rate.micros) * numerator;
  const Int128 result = (product + denominator - 1) / denominator;
  if (result > INT64_MAX || result < INT64_MIN) return std::nullopt;
  return Money{static_cast<std::int64_t>(result)};
}

}  // namespace tranche
