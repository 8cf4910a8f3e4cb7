// SPDX-License-Identifier: Apache-2.0
// How much memory does an image take? What its format says: sections of ELF, variables of PTX, of a fat
// binary the machine code before the text. Sizes that no format tells are given in the stand-in's own words
// (driver_module.cpp).
#include <cstring>
#include <elf.h>
#include <regex>

#include "driver.hpp"

namespace standin {
namespace {

template <class T>
T read_at(const char* image, std::uint64_t offset) {
  T value;
  std::memcpy(&value, image + offset, sizeof value);
  return value;
}

std::uint64_t elf_memory(const char* image) {
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if ((section.sh_flags & SHF_ALLOC) != 0) bytes += section.sh_size;
  }
  return bytes;
}

std::uint64_t ptx_memory(const std::string& text) {
  static const std::regex variable(R"((^|\n)\s*(\.visible\s+|\.weak\s+)?\.(global|const)\s)"
                                   R"([^;=]*?\.[bsuf](\d+)\s+\w+((\[\d+\])*))");
  std::uint64_t bytes = text.size() / 2;
  for (auto found = std::sregex_iterator(text.begin(), text.end(), variable); found != std::sregex_iterator();
       ++found) {
    std::uint64_t size = std::stoull((*found)[4]) / 8;
    const std::string extents = (*found)[5];
    for (std::size_t at = 0; (at = extents.find('[', at)) != std::string::npos; ++at)
      size *= std::stoull(extents.substr(at + 1));
    bytes += size;
  }
  return bytes;
}

// An entry as it is once the driver has unpacked it (LZ4, one block).
std::string unpacked(const char* packed, std::uint64_t length, std::uint64_t size) {
  std::string out;
  const auto more = [&](std::uint64_t& at, std::uint64_t count) {
    if (count != 15) return count;
    unsigned char byte = 255;
    while (byte == 255 && at < length) count += byte = static_cast<unsigned char>(packed[at++]);
    return count;
  };
  for (std::uint64_t at = 0; at < length && out.size() < size;) {
    const auto token = static_cast<unsigned char>(packed[at++]);
    const std::uint64_t literals = more(at, token >> 4);
    out.append(packed + at, literals);
    at += literals;
    if (at + 2 > length) break;
    const std::uint64_t back = read_at<std::uint16_t>(packed, at);
    at += 2;
    for (std::uint64_t left = more(at, token & 15) + 4; left > 0; --left) out += out.at(out.size() - back);
  }
  return out;
}

std::uint64_t fat_memory(const char* image) {
  const auto first = read_at<std::uint16_t>(image, 6);
  const std::uint64_t end = first + read_at<std::uint64_t>(image, 8);
  std::uint64_t text_bytes = 0;
  for (std::uint64_t at = first; at < end;) {
    const auto kind = read_at<std::uint16_t>(image, at);
    const auto header = read_at<std::uint32_t>(image, at + 4);
    const auto payload = read_at<std::uint64_t>(image, at + 8);
    const bool packed = (read_at<std::uint64_t>(image, at + 40) & 0x2000) != 0;
    const std::string code = packed ? unpacked(image + at + header,
                                               read_at<std::uint32_t>(image, at + 16),
                                               read_at<std::uint64_t>(image, at + 56))
                                    : std::string(image + at + header, payload);
    if (kind == 2) return elf_memory(code.data());
    if (kind == 1) text_bytes = ptx_memory(code);
    at += header + payload;
  }
  return text_bytes;
}

}  // namespace

std::uint64_t image_memory(const char* image) {
  if (std::strncmp(image, "\xb1\x43\x62\x46", 4) == 0) return image_memory(read_at<const char*>(image, 8));
  if (std::strncmp(image, ELFMAG, SELFMAG) == 0) return elf_memory(image);
  if (std::strncmp(image, "\x50\xed\x55\xba", 4) == 0) return fat_memory(image);
  const std::string text(image);
  return text.find(".version") == std::string::npos ? 0 : ptx_memory(text);
}

}  // namespace standin
