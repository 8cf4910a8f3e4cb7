// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two codes of Zstandard: finite-state entropy for numbers, Huffman for literals.
#include <cstdint>

namespace tranche::guard {

struct ByteRange {
  const unsigned char* at = nullptr;
  std::uint64_t length = 0;

  bool skip(std::uint64_t bytes) {
    if (bytes > length) return false;
    at += bytes;
    length -= bytes;
    return true;
  }
  bool take(std::uint64_t bytes, ByteRange& part) {
    part = {at, bytes};
    return skip(bytes);
  }
};

// Bits from the last one back to the first. Beyond the first there are zeros, and `left` tells how many.
class BackwardBits {
 public:
  bool open(const ByteRange& bytes);
  std::uint64_t read(unsigned count);
  [[nodiscard]] std::int64_t left() const { return left_; }

 private:
  const unsigned char* at_ = nullptr;
  std::int64_t left_ = 0;
};

struct StateEntry {
  std::uint16_t base;
  std::uint8_t symbol, bits;
};

inline constexpr unsigned kStateBitsMost = 9;
struct StateTable {
  StateEntry entries[1U << kStateBitsMost];
  unsigned bits = 0;
  bool known = false;

  void set_single(std::uint8_t symbol);
  bool set_counts(const std::int16_t* counts, unsigned symbols, unsigned state_bits);
  // From the description at the beginning of the range, which is skipped.
  bool read(ByteRange& from, unsigned symbols_most, unsigned bits_most);
};

class State {
 public:
  explicit State(const StateTable& table) : table_(&table) {}
  void begin(BackwardBits& bits) { state_ = bits.read(table_->bits); }
  [[nodiscard]] unsigned symbol() const { return table_->entries[state_].symbol; }
  void next(BackwardBits& bits) {
    const StateEntry& entry = table_->entries[state_];
    state_ = entry.base + bits.read(entry.bits);
  }

 private:
  const StateTable* table_;
  std::uint64_t state_ = 0;
};

inline constexpr unsigned kCodeBitsMost = 11;
struct CodeTable {
  struct Code {
    std::uint8_t symbol, bits;
  };
  Code codes[1U << kCodeBitsMost];
  unsigned bits = 0;  // Zero: not known.

  // From the description at the beginning of the range, which is skipped. `scratch` is written.
  bool read(ByteRange& from, StateTable& scratch);
  // Exactly `count` literals, and not a bit more.
  bool decode(const ByteRange& stream, unsigned char* to, std::uint64_t count) const;

 private:
  bool set_weights(std::uint8_t* weights, unsigned count);
};

}  // namespace tranche::guard
