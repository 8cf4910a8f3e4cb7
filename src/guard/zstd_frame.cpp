// SPDX-License-Identifier: Apache-2.0
#include "guard/zstd_frame.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

#include "guard/zstd_codes.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint64_t kMagic = 0xfd2fb528;
constexpr std::uint64_t kBlockMost = 128ULL << 10;
constexpr unsigned kOffsetCodes = 32;

struct Span {
  std::uint32_t base;
  std::uint8_t bits;
};
constexpr Span kLiteralSpans[] = {{0, 0},     {1, 0},     {2, 0},     {3, 0},      {4, 0},      {5, 0},
                                  {6, 0},     {7, 0},     {8, 0},     {9, 0},      {10, 0},     {11, 0},
                                  {12, 0},    {13, 0},    {14, 0},    {15, 0},     {16, 1},     {18, 1},
                                  {20, 1},    {22, 1},    {24, 2},    {28, 2},     {32, 3},     {40, 3},
                                  {48, 4},    {64, 6},    {128, 7},   {256, 8},    {512, 9},    {1024, 10},
                                  {2048, 11}, {4096, 12}, {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}};
constexpr unsigned kLiteralCodes = sizeof kLiteralSpans / sizeof *kLiteralSpans;
constexpr unsigned kPlainMatches = 32;  // Codes below it stand for themselves and three more.
constexpr Span kMatchSpans[] = {{35, 1},     {37, 1},     {39, 1},    {41, 1},    {43, 2},    {47, 2},
                                {51, 3},     {59, 3},     {67, 4},    {83, 4},    {99, 5},    {131, 7},
                                {259, 8},    {515, 9},    {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13},
                                {16387, 14}, {32771, 15}, {65539, 16}};
constexpr unsigned kMatchCodes = kPlainMatches + sizeof kMatchSpans / sizeof *kMatchSpans;

constexpr std::int16_t kLiteralCounts[] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                           2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr std::int16_t kMatchCounts[] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                         1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
constexpr std::int16_t kOffsetCounts[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                          1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

std::uint64_t little_endian(const unsigned char* at, unsigned bytes) {
  std::uint64_t value = 0;
  for (unsigned i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

// What outlives a block. Too large for a stack: a program's thread may have little.
struct Decoder {
  StateTable literal_lengths, offsets, match_lengths, scratch;
  CodeTable codes;
  std::uint64_t recent[3] = {1, 4, 8};
  unsigned char literals[kBlockMost];
  std::uint64_t literal_count = 0;
  unsigned char* to = nullptr;
  std::uint64_t room = 0, written = 0;

  bool put(const unsigned char* from, std::uint64_t bytes) {
    if (bytes > room - written) return false;
    std::memcpy(to + written, from, bytes);
    written += bytes;
    return true;
  }
  bool repeat(std::uint64_t back, std::uint64_t bytes) {
    if (back == 0 || back > written || bytes > room - written) return false;
    for (; bytes > 0; --bytes, ++written) to[written] = to[written - back];  // May overlap, and repeats then.
    return true;
  }
  bool fill(unsigned char byte, std::uint64_t bytes) {
    if (bytes > room - written) return false;
    std::memset(to + written, byte, bytes);
    written += bytes;
    return true;
  }

  bool frame(ByteRange from);
  bool block(ByteRange from);
  bool plain_literals(ByteRange& from, bool repeated);
  bool coded_literals(ByteRange& from, bool new_codes);
  bool four_streams(ByteRange part);
  bool sequences(ByteRange from);
  bool run_sequences(const ByteRange& from, std::uint64_t count);
  std::uint64_t offset_of(std::uint64_t value, bool no_literals);
};

bool Decoder::plain_literals(ByteRange& from, bool repeated) {
  const unsigned format = *from.at >> 2 & 3;
  const unsigned head = (format & 1) == 0 ? 1 : format == 1 ? 2 : 3;
  if (head > from.length) return false;
  literal_count = little_endian(from.at, head) >> (head == 1 ? 3 : 4);
  from.skip(head);
  ByteRange part;
  if (literal_count > kBlockMost || !from.take(repeated ? 1 : literal_count, part)) return false;
  if (repeated) {
    std::memset(literals, *part.at, literal_count);
  } else {
    std::memcpy(literals, part.at, literal_count);
  }
  return true;
}

bool Decoder::four_streams(ByteRange part) {
  const std::uint64_t each = (literal_count + 3) / 4;
  ByteRange sizes;
  if (!part.take(6, sizes) || each * 3 > literal_count) return false;
  for (unsigned i = 0; i < 4; ++i) {
    ByteRange stream = part;
    if (i < 3 && !part.take(little_endian(sizes.at + 2 * i, 2), stream)) return false;
    const std::uint64_t count = i < 3 ? each : literal_count - 3 * each;
    if (!codes.decode(stream, literals + i * each, count)) return false;
  }
  return true;
}

bool Decoder::coded_literals(ByteRange& from, bool new_codes) {
  const unsigned format = *from.at >> 2 & 3;
  const unsigned head = format < 2 ? 3 : format + 2;
  const unsigned width = format < 2 ? 10 : format == 2 ? 14 : 18;
  if (head > from.length) return false;
  const std::uint64_t both = little_endian(from.at, head) >> 4;
  const std::uint64_t mask = (1ULL << width) - 1;
  literal_count = both & mask;
  from.skip(head);
  ByteRange part;
  if (literal_count > kBlockMost || !from.take(both >> width & mask, part)) return false;
  if (new_codes && !codes.read(part, scratch)) return false;
  return format == 0 ? codes.decode(part, literals, literal_count) : four_streams(part);
}

struct Shape {
  unsigned symbols;
  unsigned bits;
  const std::int16_t* counts;  // Where the frame tells none.
  unsigned count_symbols;
  unsigned count_bits;
};
constexpr Shape kLiteralShape{kLiteralCodes, 9, kLiteralCounts, sizeof kLiteralCounts / 2, 6};
constexpr Shape kOffsetShape{kOffsetCodes, 8, kOffsetCounts, sizeof kOffsetCounts / 2, 5};
constexpr Shape kMatchShape{kMatchCodes, 9, kMatchCounts, sizeof kMatchCounts / 2, 6};

bool prepare(StateTable& table, unsigned mode, const Shape& shape, ByteRange& from) {
  if (mode == 0) return table.set_counts(shape.counts, shape.count_symbols, shape.count_bits);
  if (mode == 2) return table.read(from, shape.symbols, shape.bits);
  if (mode == 3) return table.known;
  if (from.length == 0 || *from.at >= shape.symbols) return false;
  table.set_single(*from.at);
  return from.skip(1);
}

bool Decoder::sequences(ByteRange from) {
  if (from.length == 0) return false;
  const unsigned first = *from.at;
  const unsigned head = first < 128 ? 1 : first < 255 ? 2 : 3;
  if (head > from.length) return false;
  std::uint64_t count = first;
  if (head == 2) count = (first - 128) * 256ULL + from.at[1];
  if (head == 3) count = little_endian(from.at + 1, 2) + 0x7f00;
  from.skip(head);
  if (count == 0) return from.length == 0 && put(literals, literal_count);
  if (from.length == 0) return false;
  const unsigned modes = *from.at;
  from.skip(1);
  return (modes & 3) == 0 && prepare(literal_lengths, modes >> 6, kLiteralShape, from) &&
         prepare(offsets, modes >> 4 & 3, kOffsetShape, from) &&
         prepare(match_lengths, modes >> 2 & 3, kMatchShape, from) && run_sequences(from, count);
}

// Values up to three name one of the last offsets; zero: there is no such one.
std::uint64_t Decoder::offset_of(std::uint64_t value, bool no_literals) {
  std::uint64_t offset = value - 3;
  std::uint64_t place = 2;
  if (value <= 3) {
    place = value - 1 + (no_literals ? 1 : 0);
    offset = place == 3 ? recent[0] - 1 : recent[place];
  }
  for (std::uint64_t i = std::min<std::uint64_t>(place, 2); i > 0; --i) recent[i] = recent[i - 1];
  recent[0] = offset;
  return offset;
}

bool Decoder::run_sequences(const ByteRange& from, std::uint64_t count) {
  BackwardBits bits;
  if (!bits.open(from)) return false;
  State literal(literal_lengths);
  State offset(offsets);
  State match(match_lengths);
  literal.begin(bits);
  offset.begin(bits);
  match.begin(bits);
  std::uint64_t used = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const unsigned match_code = match.symbol();
    const Span match_span =
        match_code < kPlainMatches ? Span{match_code + 3, 0} : kMatchSpans[match_code - kPlainMatches];
    const Span literal_span = kLiteralSpans[literal.symbol()];
    const std::uint64_t value = (1ULL << offset.symbol()) + bits.read(offset.symbol());
    const std::uint64_t match_bytes = match_span.base + bits.read(match_span.bits);
    const std::uint64_t literal_bytes = literal_span.base + bits.read(literal_span.bits);
    if (bits.left() < 0 || literal_bytes > literal_count - used || !put(literals + used, literal_bytes) ||
        !repeat(offset_of(value, literal_bytes == 0), match_bytes))
      return false;
    used += literal_bytes;
    if (i + 1 == count) break;
    literal.next(bits);
    match.next(bits);
    offset.next(bits);
  }
  return bits.left() == 0 && put(literals + used, literal_count - used);
}

bool Decoder::block(ByteRange from) {
  if (from.length == 0) return false;
  const unsigned kind = *from.at & 3;
  const bool read = kind < 2 ? plain_literals(from, kind == 1) : coded_literals(from, kind == 2);
  return read && sequences(from);
}

bool Decoder::frame(ByteRange from) {
  for (bool last = false; !last;) {
    ByteRange head;
    ByteRange part;
    if (!from.take(3, head)) return false;
    const std::uint64_t word = little_endian(head.at, 3);
    const std::uint64_t bytes = word >> 3;
    const unsigned kind = word >> 1 & 3;
    last = (word & 1) != 0;
    if (kind == 3 || !from.take(kind == 1 ? 1 : bytes, part)) return false;
    const bool done = kind == 0 ? put(part.at, bytes) : kind == 1 ? fill(*part.at, bytes) : block(part);
    if (!done) return false;
  }
  return true;
}

// Leaves the first block at the beginning of the range.
bool skip_header(ByteRange& from) {
  if (from.length < 5 || little_endian(from.at, 4) != kMagic) return false;
  const unsigned flags = from.at[4];
  const bool single = (flags & 0x20) != 0;
  if ((flags & 0x08) != 0 || (flags & 3) != 0) return false;  // Of a later format, or with a dictionary.
  const unsigned size_bytes = flags >> 6 == 0 ? (single ? 1 : 0) : 1U << (flags >> 6);
  return from.skip(5U + (single ? 0 : 1) + size_bytes);
}

}  // namespace

std::uint64_t unpack_zstd(const unsigned char* from,
                          std::uint64_t length,
                          unsigned char* to,
                          std::uint64_t room) {
  ByteRange range{from, length};
  if (!skip_header(range)) return 0;
  void* memory = ::mmap(nullptr, sizeof(Decoder), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto* decoder = new (memory) Decoder;
  decoder->to = to;
  decoder->room = room;
  const bool whole = decoder->frame(range);
  const std::uint64_t written = decoder->written;
  ::munmap(memory, sizeof(Decoder));
  return whole ? written : 0;
}

}  // namespace tranche::guard
