// SPDX-License-Identifier: Apache-2.0
#include "guard/image_sizes.hpp"

#include <cstddef>
#include <cstring>
#include <doctest/doctest.h>
#include <elf.h>
#include <string>

namespace tranche::guard {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;

std::string elf_with(std::uint64_t variables) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  Elf64_Shdr sections[2] = {};
  sections[0].sh_size = 1ULL << 40;  // Not in memory: debug information, names.
  sections[1].sh_type = SHT_NOBITS;
  sections[1].sh_flags = SHF_ALLOC;
  sections[1].sh_size = variables;
  std::string image(reinterpret_cast<const char*>(&header), sizeof header);
  return image.append(reinterpret_cast<const char*>(sections), sizeof sections);
}

template <class T>
void put(std::string& image, std::size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

std::string entry(std::uint16_t kind,
                  const std::string& payload,
                  std::uint64_t flags,
                  std::uint64_t unpacked) {
  std::string head(64, '\0');
  put(head, 0, kind);
  put(head, 4, std::uint32_t{64});
  put(head, 8, std::uint64_t{payload.size()});
  put(head, 16, static_cast<std::uint32_t>(payload.size()));
  put(head, 40, flags);
  put(head, 56, unpacked);
  return head + payload;
}

std::string fat(const std::string& entries) {
  std::string head(16, '\0');
  put(head, 0, std::uint32_t{0xba55ed50});
  put(head, 6, std::uint16_t{16});
  put(head, 8, std::uint64_t{entries.size()});
  return head + entries;
}

StatedSize of_fat(const std::string& image) {
  return size_in_fat_binary(image.data(), image.size());
}
StatedSize of_text(const std::string& text) {
  return size_in_text(text.data(), text.size());
}

}  // namespace

TEST_CASE("image sizes: ELF says what will be in memory, variables without contents included") {
  const std::string image = elf_with(5 * kMiB);
  CHECK(elf_length(image.data()) == image.size());
  const StatedSize size = size_in_elf(image.data(), image.size());
  CHECK(size.whole);
  CHECK(size.bytes == 6 * kMiB);
  CHECK(size_in_elf(image.data(), image.size() - 1).bytes == 0);
}

TEST_CASE("image sizes: ELF that lies about where its sections are, or how large, is not believed") {
  std::string image = elf_with(5 * kMiB);
  put(image, offsetof(Elf64_Ehdr, e_shoff), UINT64_MAX - 2 * sizeof(Elf64_Shdr) + 65);  // Ends at 64.
  CHECK(elf_length(image.data()) == 0);
  CHECK(size_in_elf(image.data(), image.size()).bytes == 0);
  std::string endless = elf_with(UINT64_MAX - 7);
  put(endless,
      sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_addralign),
      std::uint64_t{16});
  CHECK(size_in_elf(endless.data(), endless.size()).bytes > (1ULL << 60));
}

TEST_CASE(
    "image sizes: the largest entry of a fat binary counts, and a compressed one is not the whole truth") {
  const std::string small = entry(2, elf_with(kMiB), 0, 0);
  const std::string large = entry(2, elf_with(9 * kMiB), 0, 0);
  CHECK(of_fat(fat(small + large)).bytes == 10 * kMiB);
  CHECK(of_fat(fat(large + small)).bytes == 10 * kMiB);
  CHECK(of_fat(fat(small + large)).whole);
  const StatedSize packed = of_fat(fat(small + entry(2, "xxxx", 0x2000, 30 * kMiB)));
  CHECK(packed.bytes == 30 * kMiB);
  CHECK_FALSE(packed.whole);
  CHECK_FALSE(of_fat(fat(entry(2, "xxxx", 0x2000, 30 * kMiB) + small)).whole);
  CHECK_FALSE(of_fat(fat("")).whole);
}

// An LZ4 block that repeats nothing.
std::string packed(const std::string& text) {
  std::string block("\xf0");
  std::size_t left = text.size() - 15;
  for (; left >= 255; left -= 255) block += '\xff';
  return block + static_cast<char>(left) + text;
}

TEST_CASE("image sizes: a compressed entry is unpacked, and then tells all") {
  const std::string elf = elf_with(40 * kMiB);
  const StatedSize size = of_fat(fat(entry(2, packed(elf), 0x2000, elf.size())));
  CHECK(size.whole);
  CHECK(size.bytes == 40 * kMiB);
  const std::string text = ".version 8.0 .global .b8 table[8388608];";
  CHECK(of_fat(fat(entry(1, packed(text), 0x2000, text.size()))).bytes == 10 * kMiB);
  CHECK(of_fat(fat(entry(1, packed(text), 0x2000, text.size()))).whole);
  CHECK_FALSE(of_fat(fat(entry(2, packed(elf), 0x1000, elf.size()))).whole);
  CHECK_FALSE(of_fat(fat(entry(2, packed(elf), 0x8000, elf.size()))).whole);  // Not what its flag says.
  CHECK_FALSE(of_fat(fat(entry(2, packed(elf), 0x2000, elf.size() - 1))).whole);
  CHECK_FALSE(of_fat(fat(entry(2, packed(elf), 0x2000, 65 * kMiB))).whole);
}

// A Zstandard frame of one block that is not compressed.
std::string framed(const std::string& text) {
  std::string frame("\x28\xb5\x2f\xfd\x00\x58", 6);
  const std::size_t head = text.size() << 3 | 1;
  for (int i = 0; i < 3; ++i) frame += static_cast<char>(head >> (8 * i) & 255);
  return frame + text;
}

TEST_CASE("image sizes: so is one that Zstandard compressed") {
  const std::string elf = elf_with(40 * kMiB);
  const StatedSize size = of_fat(fat(entry(2, framed(elf), 0x8000, elf.size())));
  CHECK(size.whole);
  CHECK(size.bytes == 40 * kMiB);
  const std::string text = ".version 8.0 .global .b8 table[8388608];";
  CHECK(of_fat(fat(entry(1, framed(text), 0x8000, text.size()))).bytes == 10 * kMiB);
  CHECK_FALSE(of_fat(fat(entry(2, framed(elf), 0x2000, elf.size()))).whole);
  CHECK_FALSE(of_fat(fat(entry(2, framed(elf), 0x8000, elf.size() - 1))).whole);
  CHECK_FALSE(of_fat(fat(entry(2, framed(elf), 0x8000, 65 * kMiB))).whole);
}

TEST_CASE("image sizes: a fat binary that is cut off is not read beyond its end") {
  const std::string whole = fat(entry(2, elf_with(9 * kMiB), 0, 0) + entry(1, ".version 8.0", 0, 0));
  for (std::size_t length = 16; length < whole.size(); ++length) {
    const std::string part(whole, 0, length);  // Its own memory: reading on would be seen.
    CHECK_FALSE((of_fat(part).whole && of_fat(part).bytes > 10 * kMiB));
  }
}

TEST_CASE("image sizes: PTX declares its variables; those of others and kinds of pointers are none") {
  const std::string head = ".version 8.0\n.target sm_80\n";
  CHECK(of_text(head).bytes == 2 * kMiB);
  CHECK(of_text(head).whole);
  CHECK(of_text(head + ".visible .global .align 4 .b8 table[1024][4096];").bytes == 6 * kMiB);
  CHECK(of_text(head + ".global .align 16 .v4 .f32 lanes[1048576];").bytes == 18 * kMiB);
  CHECK(of_text(head + ".const .u64 one = 7; .global .attribute(.managed) .align 8 .u64 m[1048576];").bytes ==
        10 * kMiB);
  CHECK(of_text(head + ".visible .const .align 4 .b8 coefficients[4194304];").bytes == 6 * kMiB);
  CHECK(of_text(head + ".extern .global .align 4 .b8 other[104857600];").bytes == 2 * kMiB);
  CHECK(
      of_text(head + ".entry f(.param .u64 .ptr .global .align 8 p) { ld.global.u32 %r1, [%rd1+104857600]; }")
          .bytes == 2 * kMiB);
  CHECK(of_text(head + ".global .b8 absurd[18446744073709551615][18446744073709551615];").bytes >
        (1ULL << 60));
}

TEST_CASE("image sizes: text that is no PTX says nothing") {
  CHECK(of_text("").bytes == 0);
  CHECK(of_text("kernel .global .b8 x[1000000];").bytes == 0);
  CHECK_FALSE(of_text("any").whole);
}

}  // namespace tranche::guard
