// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unpacks one Zstandard frame (RFC 8878), as compressed entries of fat binaries are since CUDA 12. Reads and
// writes nothing outside the two ranges, whatever the frame says; dictionaries are not known.
#include <cstdint>

namespace tranche::guard {

// Bytes written; zero: the frame is not whole, or wants more room.
std::uint64_t unpack_zstd(const unsigned char* from,
                          std::uint64_t length,
                          unsigned char* to,
                          std::uint64_t room);

}  // namespace tranche::guard
