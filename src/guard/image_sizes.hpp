// SPDX-License-Identifier: Apache-2.0
#pragma once
// What does an image for the device itself say about the memory it will take?
#include <cstdint>

namespace tranche::guard {

struct StatedSize {
  std::uint64_t bytes = 0;  // Zero: it says nothing.
  bool whole = false;       // Nothing that it needs is left out.
};

// Lengths count from `code`; what does not lie within `length` is not read. ELF: all sections that will be in
// memory, variables without contents included.
StatedSize size_in_elf(const void* code, std::uint64_t length);
// Of its entries, the largest: the driver takes one of them. Compressed ones are unpacked where that is LZ4
// or Zstandard and not too long; of others only the unpacked length is known.
StatedSize size_in_fat_binary(const void* code, std::uint64_t length);
// PTX: variables as they are declared, and room for the code that is made of it. Other text says nothing.
StatedSize size_in_text(const char* text, std::uint64_t length);

// Bytes from `code` on that belong to the image; zero: it is no such image.
std::uint64_t elf_length(const void* code);
std::uint64_t fat_binary_length(const void* code);

}  // namespace tranche::guard
