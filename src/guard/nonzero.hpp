// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many bytes of a range are not zero? As fast as memory is read while all of them are.
#include <cstddef>
#include <cstdint>

namespace tranche::guard {

std::uint64_t count_nonzero(const void* bytes, std::size_t count);

// Reads a device back in pieces through two buffers: while one is counted, the other is filled.
inline constexpr std::size_t kReadBackPiece = 2ULL << 20;

}  // namespace tranche::guard
