// SPDX-License-Identifier: Apache-2.0
#include "guard/zstd_codes.hpp"

#include <algorithm>
#include <bit>

namespace tranche::guard {
namespace {

constexpr unsigned kSymbolsMost = 256;
constexpr unsigned kWeightBitsMost = 6;

// Bits from the first one on. Beyond the last there are zeros; whoever reads looks at `overrun` in the end.
class ForwardBits {
 public:
  explicit ForwardBits(const ByteRange& from) : from_(from) {}
  unsigned read(unsigned count) {
    unsigned value = 0;
    for (unsigned i = 0; i < count; ++i, ++position_)
      if (position_ / 8 < from_.length)
        value |= ((unsigned{from_.at[position_ / 8]} >> (position_ % 8)) & 1U) << i;
    return value;
  }
  void back(unsigned count) { position_ -= count; }
  [[nodiscard]] std::uint64_t bytes() const { return (position_ + 7) / 8; }
  [[nodiscard]] bool overrun() const { return bytes() > from_.length; }

 private:
  ByteRange from_;
  std::uint64_t position_ = 0;
};

unsigned highest_bit(std::uint64_t value) {
  return static_cast<unsigned>(std::bit_width(value)) - 1;
}

// One count, in as few bits as what is left to share out allows.
int read_count(ForwardBits& bits, unsigned left) {
  const unsigned width = highest_bit(left + 1) + 1;
  const unsigned half = 1U << (width - 1);
  const unsigned short_ones = (1U << width) - 1 - (left + 1);
  unsigned value = bits.read(width);
  if ((value & (half - 1)) < short_ones) {
    bits.back(1);
    value &= half - 1;
  } else if (value >= half) {
    value -= short_ones;
  }
  return static_cast<int>(value) - 1;
}

}  // namespace

bool BackwardBits::open(const ByteRange& bytes) {
  if (bytes.length == 0 || bytes.at[bytes.length - 1] == 0) return false;
  at_ = bytes.at;
  // The highest bit that is set only says where the others begin.
  left_ = static_cast<std::int64_t>((bytes.length - 1) * 8 + highest_bit(bytes.at[bytes.length - 1]));
  return true;
}

std::uint64_t BackwardBits::read(unsigned count) {
  left_ -= count;
  std::uint64_t value = 0;
  // By whole bytes from the lowest bit wanted; before the first byte there is nothing.
  const std::int64_t lowest = std::max<std::int64_t>(left_, 0);
  const std::int64_t end = left_ + static_cast<std::int64_t>(count);
  unsigned filled = 0;
  for (std::int64_t bit = lowest; bit < end;) {
    const auto shift = static_cast<unsigned>(bit % 8);
    const auto here = static_cast<unsigned>(std::min<std::int64_t>(8 - shift, end - bit));
    const std::uint64_t part = (unsigned{at_[bit / 8]} >> shift) & ((1U << here) - 1);
    value |= part << filled;
    filled += here;
    bit += here;
  }
  if (left_ < 0 && end > 0) value <<= static_cast<unsigned>(-left_);
  return value;
}

void StateTable::set_single(std::uint8_t symbol) {
  entries[0] = {0, symbol, 0};
  bits = 0;
  known = true;
}

bool StateTable::set_counts(const std::int16_t* counts, unsigned symbols, unsigned state_bits) {
  const unsigned size = 1U << state_bits;
  unsigned rare_from = size;  // Symbols of less than one part take a place each at the end.
  std::uint16_t next[kSymbolsMost] = {};
  for (unsigned symbol = 0; symbol < symbols; ++symbol) {
    next[symbol] = static_cast<std::uint16_t>(counts[symbol] < 0 ? 1 : counts[symbol]);
    if (counts[symbol] < 0) entries[--rare_from].symbol = static_cast<std::uint8_t>(symbol);
  }
  const unsigned step = size / 2 + size / 8 + 3;
  unsigned place = 0;
  for (unsigned symbol = 0; symbol < symbols; ++symbol) {
    for (int i = 0; i < counts[symbol]; ++i) {
      entries[place].symbol = static_cast<std::uint8_t>(symbol);
      do place = (place + step) & (size - 1);
      while (place >= rare_from);
    }
  }
  if (place != 0) return false;
  for (unsigned i = 0; i < size; ++i) {
    const unsigned turn = next[entries[i].symbol]++;
    const unsigned width = state_bits - highest_bit(turn);
    entries[i].bits = static_cast<std::uint8_t>(width);
    entries[i].base = static_cast<std::uint16_t>((turn << width) - size);
  }
  bits = state_bits;
  known = true;
  return true;
}

bool StateTable::read(ByteRange& from, unsigned symbols_most, unsigned bits_most) {
  known = false;
  ForwardBits in(from);
  const unsigned state_bits = in.read(4) + 5;
  if (state_bits > bits_most) return false;
  std::int16_t counts[kSymbolsMost] = {};
  unsigned symbols = 0;
  auto left = static_cast<int>(1U << state_bits);
  while (left > 0 && symbols < symbols_most && !in.overrun()) {
    const int count = read_count(in, static_cast<unsigned>(left));
    left -= count < 0 ? 1 : count;
    counts[symbols++] = static_cast<std::int16_t>(count);
    for (unsigned zeros = count == 0 ? 3 : 0; zeros == 3 && !in.overrun();) {
      zeros = in.read(2);
      symbols += zeros;
      if (symbols > symbols_most) return false;
    }
  }
  return left == 0 && !in.overrun() && set_counts(counts, symbols, state_bits) && from.skip(in.bytes());
}

namespace {

// Weights of symbols, themselves packed by two states that take turns.
bool unpack_weights(ByteRange from, StateTable& table, std::uint8_t* weights, unsigned& count) {
  BackwardBits bits;
  if (!table.read(from, kCodeBitsMost + 1, kWeightBitsMost) || !bits.open(from)) return false;
  State states[2] = {State(table), State(table)};
  for (State& state : states) state.begin(bits);
  for (unsigned turn = 0; count + 1 < kSymbolsMost; turn ^= 1U) {
    weights[count++] = static_cast<std::uint8_t>(states[turn].symbol());
    states[turn].next(bits);
    if (bits.left() >= 0) continue;
    if (count + 1 >= kSymbolsMost) return false;
    weights[count++] = static_cast<std::uint8_t>(states[turn ^ 1U].symbol());
    return true;
  }
  return false;
}

}  // namespace

bool CodeTable::read(ByteRange& from, StateTable& scratch) {
  bits = 0;
  if (from.length == 0) return false;
  const unsigned head = *from.at;
  std::uint8_t weights[kSymbolsMost] = {};
  unsigned count = 0;
  ByteRange part;
  from.skip(1);
  if (head < 128) {
    if (!from.take(head, part) || !unpack_weights(part, scratch, weights, count)) return false;
  } else {
    count = head - 127;
    if (!from.take((count + 1) / 2, part)) return false;
    for (unsigned i = 0; i < count; ++i) weights[i] = i % 2 == 0 ? part.at[i / 2] >> 4 : part.at[i / 2] & 15;
  }
  return set_weights(weights, count);
}

// The weight of the last symbol is what lacks to a power of two. Longer codes come first.
bool CodeTable::set_weights(std::uint8_t* weights, unsigned count) {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (weights[i] > kCodeBitsMost) return false;
    if (weights[i] != 0) sum += 1ULL << (weights[i] - 1);
  }
  if (sum == 0) return false;
  const unsigned longest = highest_bit(sum) + 1;
  const std::uint64_t lacking = (1ULL << longest) - sum;
  if (longest > kCodeBitsMost || !std::has_single_bit(lacking)) return false;
  weights[count] = static_cast<std::uint8_t>(highest_bit(lacking) + 1);
  unsigned place = 0;
  for (unsigned weight = 1; weight <= longest; ++weight) {
    for (unsigned symbol = 0; symbol <= count; ++symbol) {
      if (weights[symbol] != weight) continue;
      const Code code{static_cast<std::uint8_t>(symbol), static_cast<std::uint8_t>(longest + 1 - weight)};
      for (unsigned i = 0; i < 1U << (weight - 1); ++i) codes[place++] = code;
    }
  }
  bits = longest;
  return true;
}

bool CodeTable::decode(const ByteRange& stream, unsigned char* to, std::uint64_t count) const {
  BackwardBits in;
  if (bits == 0 || !in.open(stream)) return false;
  const std::uint64_t mask = (1ULL << bits) - 1;
  std::uint64_t window = in.read(bits);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Code& code = codes[window];
    to[i] = code.symbol;
    window = ((window << code.bits) & mask) | in.read(code.bits);
  }
  return in.left() == -static_cast<std::int64_t>(bits);
}

}  // namespace tranche::guard
