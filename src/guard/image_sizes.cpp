// SPDX-License-Identifier: Apache-2.0
#include "guard/image_sizes.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>

#include "guard/lz4_block.hpp"
#include "guard/zstd_frame.hpp"

namespace tranche::guard {
namespace {

constexpr std::uint32_t kFatMagic = 0xba55ed50;
constexpr std::uint64_t kCodeGranularity = 2ULL << 20;
constexpr std::uint64_t kCodePerText = 2;  // Bytes of machine code for one of PTX, with room to spare.
constexpr std::uint64_t kVariableAlign = 256;
constexpr std::uint16_t kText = 1, kElf = 2;
constexpr std::uint64_t kLz4 = 0x2000, kZstd = 0x8000;
constexpr std::uint64_t kCompressed = 0x1000 | kLz4 | kZstd;
constexpr std::uint64_t kUnpackAtMost = 64ULL << 20;  // Of one image: a tenth of a second.

struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct FatEntry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t packed_bytes, not_read[5];
  std::uint64_t flags, reserved, unpacked_bytes;
};
static_assert(sizeof(FatEntry) == 64);

template <class T>
T read_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint64_t rounded(std::uint64_t bytes) {
  return (std::min(bytes, UINT64_MAX / 2) + kCodeGranularity - 1) / kCodeGranularity * kCodeGranularity;
}

const unsigned char* at(const void* code, std::uint64_t offset) {
  return static_cast<const unsigned char*>(code) + offset;
}

// Words of a text: runs of characters that are neither space nor punctuation of their own.
class Words {
 public:
  Words(const char* text, std::uint64_t length) : next_(text), end_(text + length) {}

  bool next(const char*& word, std::uint64_t& length) {
    while (next_ < end_ && is_space(*next_)) ++next_;
    if (next_ == end_) return false;
    word = next_++;
    if (!is_mark(*word))
      while (next_ < end_ && !is_space(*next_) && !is_mark(*next_)) ++next_;
    length = static_cast<std::uint64_t>(next_ - word);
    return true;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  static bool is_mark(char c) { return std::strchr("[]{}(),;=", c) != nullptr; }

  const char* next_;
  const char* end_;
};

bool same(const char* word, std::uint64_t length, const char* other) {
  return std::strlen(other) == length && std::memcmp(word, other, length) == 0;
}

std::uint64_t number(const char* word, std::uint64_t length) {
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < length; ++i) {
    if (word[i] < '0' || word[i] > '9') return 0;
    if (__builtin_mul_overflow(value, 10U, &value)) return UINT64_MAX / 2;
    value += static_cast<std::uint64_t>(word[i] - '0');
  }
  return value;
}

// Bytes of `.b8`, `.u32`, `.f64`; zero: it is no type.
std::uint64_t type_bytes(const char* word, std::uint64_t length) {
  if (length < 3 || word[0] != '.' || std::strchr("bsuf", word[1]) == nullptr) return 0;
  return (number(word + 2, length - 2) + 7) / 8;
}

// From behind `.global` up to the name's end: `.align 4 .v2 .b8 name[16][4]`.
std::uint64_t declared_bytes(Words& words) {
  const char* word = nullptr;
  std::uint64_t length = 0;
  std::uint64_t bytes = 0;
  bool in_brackets = false;
  while (words.next(word, length)) {
    if (*word == ';' || *word == '=' || *word == '{') break;
    if (*word == '[' || *word == ']') {
      in_brackets = *word == '[';
    } else if (in_brackets) {
      if (__builtin_mul_overflow(bytes, number(word, length), &bytes)) return UINT64_MAX / 2;
    } else if (same(word, length, ".v2") || same(word, length, ".v4")) {
      bytes = static_cast<std::uint64_t>(word[2] - '0');
    } else if (const std::uint64_t one = type_bytes(word, length); one != 0) {
      bytes = one * std::max<std::uint64_t>(bytes, 1);
    }
  }
  return bytes;
}

}  // namespace

std::uint64_t elf_length(const void* code) {
  const auto header = read_as<Elf64_Ehdr>(code);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize < sizeof(Elf64_Shdr)) return 0;
  std::uint64_t end = 0;
  const bool absurd =
      __builtin_add_overflow(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize, &end);
  return absurd ? 0 : end;
}

StatedSize size_in_elf(const void* code, std::uint64_t length) {
  if (length < sizeof(Elf64_Ehdr) || elf_length(code) == 0 || elf_length(code) > length) return {};
  const auto header = read_as<Elf64_Ehdr>(code);
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section =
        read_as<Elf64_Shdr>(at(code, header.e_shoff + std::uint64_t{i} * header.e_shentsize));
    if ((section.sh_flags & SHF_ALLOC) == 0) continue;
    if (__builtin_add_overflow(bytes, section.sh_size, &bytes) ||
        __builtin_add_overflow(bytes, section.sh_addralign, &bytes))
      return {UINT64_MAX / 2, true};
  }
  return {rounded(bytes), true};
}

std::uint64_t fat_binary_length(const void* code) {
  if (read_as<std::uint32_t>(code) != kFatMagic) return 0;  // A short text may end where its memory does.
  const auto header = read_as<FatHeader>(code);
  return header.header_bytes + header.bytes;
}

namespace {

StatedSize size_in_entry(std::uint16_t kind, const unsigned char* payload, std::uint64_t bytes) {
  if (kind == kElf) return size_in_elf(payload, bytes);
  return kind == kText ? size_in_text(reinterpret_cast<const char*>(payload), bytes) : StatedSize{};
}

// What unpacks within `left` bytes tells everything. Of the rest only the unpacked length is known.
StatedSize size_in_packed(const FatEntry& entry, const unsigned char* payload, std::uint64_t& left) {
  StatedSize size{
      rounded(std::min(entry.unpacked_bytes, UINT64_MAX / 4) * (entry.kind == kText ? kCodePerText : 1)),
      false};
  const std::uint64_t packed = std::min<std::uint64_t>(entry.packed_bytes, entry.payload_bytes);
  const std::uint64_t way = entry.flags & kCompressed;
  if ((way != kLz4 && way != kZstd) || entry.unpacked_bytes == 0 || entry.unpacked_bytes > left) return size;
  left -= entry.unpacked_bytes;
  void* room = ::mmap(nullptr,
                      entry.unpacked_bytes,
                      PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1,
                      0);
  if (room == MAP_FAILED) return size;
  auto* unpacked = static_cast<unsigned char*>(room);
  const auto unpack = way == kLz4 ? unpack_lz4 : unpack_zstd;
  const std::uint64_t bytes = unpack(payload, packed, unpacked, entry.unpacked_bytes);
  if (const StatedSize inside = size_in_entry(entry.kind, unpacked, bytes); bytes != 0 && inside.whole)
    size = inside;
  ::munmap(room, entry.unpacked_bytes);
  return size;
}

}  // namespace

StatedSize size_in_fat_binary(const void* code, std::uint64_t length) {
  const auto header = read_as<FatHeader>(code);
  const std::uint64_t end = std::min(length, fat_binary_length(code));
  StatedSize largest{0, true};
  std::uint64_t unpack_left = kUnpackAtMost;
  for (std::uint64_t from = header.header_bytes; from + sizeof(FatEntry) <= end;) {
    const auto entry = read_as<FatEntry>(at(code, from));
    const std::uint64_t left = end - from;
    if (entry.header_bytes < sizeof(FatEntry) || entry.header_bytes > left ||
        entry.payload_bytes > left - entry.header_bytes)
      return {largest.bytes, false};
    const unsigned char* payload = at(code, from + entry.header_bytes);
    const StatedSize one = (entry.flags & kCompressed) != 0
                               ? size_in_packed(entry, payload, unpack_left)
                               : size_in_entry(entry.kind, payload, entry.payload_bytes);
    largest = {std::max(largest.bytes, one.bytes), largest.whole && one.whole};
    from += entry.header_bytes + entry.payload_bytes;
  }
  return {largest.bytes, largest.whole && largest.bytes != 0};
}

StatedSize size_in_text(const char* text, std::uint64_t length) {
  Words words(text, ::strnlen(text, length));
  const char* word = nullptr;
  std::uint64_t word_length = 0;
  std::uint64_t bytes = 0;
  bool is_ptx = false;
  bool elsewhere = false;  // Declared, but of another image; or a pointer's kind, not a variable.
  while (words.next(word, word_length)) {
    is_ptx = is_ptx || same(word, word_length, ".version");
    const bool variable = same(word, word_length, ".global") || same(word, word_length, ".const");
    if (variable && !elsewhere &&
        __builtin_add_overflow(bytes, declared_bytes(words) + kVariableAlign, &bytes))
      bytes = UINT64_MAX / 2;
    elsewhere = same(word, word_length, ".extern") || same(word, word_length, ".ptr");
  }
  if (!is_ptx) return {};
  return {rounded(std::min(bytes, UINT64_MAX / 4) + ::strnlen(text, length) * kCodePerText), true};
}

}  // namespace tranche::guard
