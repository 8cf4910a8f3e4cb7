// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes: a signed count of bytes that is never mistaken for a count of something else.
#include <compare>
#include <cstdint>

namespace tranche {

struct Bytes {
  std::int64_t count = 0;
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
};

constexpr Bytes operator+(Bytes a, Bytes b) {
  return {a.count + b.count};
}
constexpr Bytes operator-(Bytes a, Bytes b) {
  return {a.count - b.count};
}

// GB is 10⁹ and GiB is 2³⁰, everywhere in Tranche.
constexpr Bytes gigabytes(std::int64_t count) {
  return {count * 1'000'000'000};
}
constexpr Bytes gibibytes(std::int64_t count) {
  return {count << 30};
}
constexpr Bytes mebibytes(std::int64_t count) {
  return {count << 20};
}

}  // namespace tranche
