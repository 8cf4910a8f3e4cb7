// SPDX-License-Identifier: Apache-2.0
#include "agent/tar_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string_view>

namespace tranche::agent {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kNamesMost = 1024 * 1024;
using Block = std::array<char, kBlock>;

std::string_view field(const Block& block, std::size_t at, std::size_t length) {
  const std::string_view whole(block.data() + at, length);
  return whole.substr(0, whole.find('\0'));
}

std::uint64_t number(const Block& block, std::size_t at, std::size_t length) {
  const auto first = static_cast<unsigned char>(block[at]);
  if ((first & 0x80U) != 0) {  // Too large for octal digits: the bytes themselves.
    std::uint64_t value = first & 0x3fU;
    for (std::size_t i = 1; i < length; ++i) {
      if (value >> 56U != 0) throw std::runtime_error("a size in it is not believable");
      value = value << 8U | static_cast<unsigned char>(block[at + i]);
    }
    return value;
  }
  std::uint64_t value = 0;
  for (const char digit : field(block, at, length)) {
    if (digit == ' ') continue;
    if (digit < '0' || digit > '7') throw std::runtime_error("a number in a tar header is damaged");
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

bool sum_fits(Block block) {
  const std::uint64_t wanted = number(block, 148, 8);
  std::fill_n(block.begin() + 148, 8, ' ');
  const std::uint64_t sum =
      std::accumulate(block.begin(), block.end(), std::uint64_t{0}, [](auto all, char byte) {
        return all + static_cast<unsigned char>(byte);
      });
  return sum == wanted;
}

TarKind kind_of(char letter) {
  switch (letter) {
    case '0':
    case '\0':
    case '7':
      return TarKind::kFile;
    case '1':
      return TarKind::kHardLink;
    case '2':
      return TarKind::kSymbolicLink;
    case '5':
      return TarKind::kFolder;
    default:
      return TarKind::kOther;
  }
}

// "30 mtime=1350244992.023960108\n", one after the other.
std::map<std::string, std::string> pax_fields(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    std::size_t length = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto start = static_cast<std::size_t>(parsed.ptr - text.data()) + 1;
    if (parsed.ec != std::errc() || length > text.size() || length <= start)
      throw std::runtime_error("a pax header is damaged");
    const std::string_view record = text.substr(start, length - start - 1);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) throw std::runtime_error("a pax header is damaged");
    fields[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    text.remove_prefix(length);
  }
  return fields;
}

}  // namespace

void TarReader::take(char* into, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t got = source_.read(into, bytes);
    if (got == 0) throw std::runtime_error("it is cut short");
    into += got;
    bytes -= got;
    at_ += got;
  }
}

void TarReader::skip_rest() {
  std::array<char, 64 * 1024> unused{};
  for (std::uint64_t left = left_ + padding_; left > 0;) {
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left, unused.size()));
    take(unused.data(), step);
    left -= step;
  }
  left_ = padding_ = 0;
}

std::size_t TarReader::read(char* into, std::size_t most) {
  const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(left_, most));
  if (step == 0) return 0;
  take(into, step);
  left_ -= step;
  return step;
}

bool TarReader::take_header(TarEntry& entry, char& letter) {
  skip_rest();
  Block block{};
  const std::size_t first = source_.read(block.data(), kBlock);
  if (first == 0) return false;  // Without the two empty blocks: some writers leave them out.
  at_ += first;
  take(block.data() + first, kBlock - first);
  if (std::all_of(block.begin(), block.end(), [](char byte) { return byte == 0; })) return false;
  if (!sum_fits(block)) throw std::runtime_error("it is no tar archive, or damaged");
  letter = block[156];
  entry = {.path = std::string(field(block, 0, 100)),
           .target = std::string(field(block, 157, 100)),
           .kind = kind_of(letter),
           .mode = static_cast<unsigned>(number(block, 100, 8)),
           .written = static_cast<std::time_t>(number(block, 136, 12)),
           .size = number(block, 124, 12),
           .offset = at_};
  const std::string_view prefix = field(block, 345, 155);
  if (field(block, 257, 6) == "ustar" && !prefix.empty()) entry.path = std::string(prefix) + "/" + entry.path;
  left_ = entry.size;
  padding_ = (kBlock - entry.size % kBlock) % kBlock;
  return true;
}

std::string TarReader::text_of(const TarEntry& entry) {
  if (entry.size > kNamesMost) throw std::runtime_error("a name in it is larger than any should be");
  std::string text(static_cast<std::size_t>(entry.size), '\0');
  for (std::size_t at = 0; at < text.size();) at += read(text.data() + at, text.size() - at);
  return text;
}

bool TarReader::next(TarEntry& entry) {
  std::string long_path, long_target;
  std::map<std::string, std::string> more;
  for (char letter = 0; take_header(entry, letter);) {
    if (letter == 'L') {
      long_path = text_of(entry).c_str();
    } else if (letter == 'K') {
      long_target = text_of(entry).c_str();
    } else if (letter == 'x') {
      more = pax_fields(text_of(entry));
    } else if (letter != 'g') {  // What holds for all entries is of no use here.
      if (!long_path.empty()) entry.path = long_path;
      if (!long_target.empty()) entry.target = long_target;
      if (more.contains("path")) entry.path = more["path"];
      if (more.contains("linkpath")) entry.target = more["linkpath"];
      if (more.contains("size")) {
        entry.size = std::stoull(more["size"]);
        left_ = entry.size;
        padding_ = (kBlock - entry.size % kBlock) % kBlock;
      }
      return true;
    }
  }
  return false;
}

}  // namespace tranche::agent
