// SPDX-License-Identifier: Apache-2.0
#pragma once
// The hash chain over records, and the signed checkpoints on it: how anyone can tell that history was edited.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.hpp"

namespace tranche::journal {

using Hash = std::array<unsigned char, 32>;
using PublicKey = std::array<unsigned char, 32>;
using Signature = std::array<unsigned char, 64>;

// The chain before the first record.
inline constexpr Hash kGenesis{};

// hash of record n = BLAKE2b-256(hash of record n-1 || n as 8 bytes, little endian || body).
[[nodiscard]] Hash chain_hash(const Hash& previous, std::uint64_t sequence, std::string_view body);
// BLAKE2b-256 of plain bytes.
[[nodiscard]] Hash hash_of(std::string_view bytes);

// "At this time the chain had this head", signed. Copied outside the database, it makes truncation visible.
struct Checkpoint {
  std::uint64_t sequence = 0;
  Hash head{};
  Instant at{};
  Signature signature{};
};

[[nodiscard]] bool signed_by(const Checkpoint& checkpoint, const PublicKey& key);
// A seal has a checkpoint's fields, but says "this is a whole export from `from` on"; one never passes as the
// other.
[[nodiscard]] bool sealed_by(const Checkpoint& seal, std::uint64_t from, const PublicKey& key);

[[nodiscard]] std::string to_hex(const unsigned char* bytes, std::size_t size);
template <std::size_t N>
[[nodiscard]] std::string to_hex(const std::array<unsigned char, N>& bytes) {
  return to_hex(bytes.data(), N);
}
// False unless `hex` is exactly `size` bytes in lower-case hex.
[[nodiscard]] bool from_hex(std::string_view hex, unsigned char* bytes, std::size_t size);
template <std::size_t N>
[[nodiscard]] bool from_hex(std::string_view hex, std::array<unsigned char, N>& bytes) {
  return from_hex(hex, bytes.data(), N);
}

}  // namespace tranche::journal
