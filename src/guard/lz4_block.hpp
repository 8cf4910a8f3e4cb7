// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unpacks one LZ4 block, as compressed entries of fat binaries are. Reads and writes nothing outside the two
// ranges, whatever the block says.
#include <cstdint>

namespace tranche::guard {

// Bytes written; zero: the block is not whole, or wants more room.
std::uint64_t unpack_lz4(const unsigned char* from,
                         std::uint64_t length,
                         unsigned char* to,
                         std::uint64_t room);

}  // namespace tranche::guard
