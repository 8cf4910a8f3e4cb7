// SPDX-License-Identifier: Apache-2.0
#include "guard/nonzero.hpp"

#include <cstring>

namespace tranche::guard {
namespace {

constexpr std::size_t kStep = 4096;

// No early exit inside: the compiler turns it into wide loads.
bool all_zero(const unsigned char* bytes) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kStep; i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, sizeof word);
    seen |= word;
  }
  return seen == 0;
}

std::uint64_t count_slowly(const unsigned char* bytes, std::size_t count) {
  std::uint64_t nonzero = 0;
  for (std::size_t i = 0; i < count; ++i) nonzero += bytes[i] != 0 ? 1 : 0;
  return nonzero;
}

}  // namespace

std::uint64_t count_nonzero(const void* bytes, std::size_t count) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint64_t nonzero = 0;
  for (; count >= kStep; at += kStep, count -= kStep)
    if (!all_zero(at)) nonzero += count_slowly(at, kStep);
  return nonzero + count_slowly(at, count);
}

}  // namespace tranche::guard
