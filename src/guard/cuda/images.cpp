// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/images.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <elf.h>
#include <sys/stat.h>

namespace tranche::guard::cuda {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;  // __fatBinC_Wrapper_t
constexpr std::uint32_t kFatMagic = 0xba55ed50;
constexpr std::uint64_t kWholeBytes = 1ULL << 20;  // Larger images are hashed in samples.
constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kSampleEvery = 64 * kSampleBytes;
constexpr std::uint64_t kCodeGranularity = 2ULL << 20;

struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
};
struct FatHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

template <class T>
T read_as(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint64_t mix(std::uint64_t hash, const unsigned char* at, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3ULL;
  return hash;
}

std::uint64_t key_of_bytes(const void* code, std::uint64_t bytes) {
  const auto* at = static_cast<const unsigned char*>(code);
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ bytes;
  if (bytes <= kWholeBytes) return mix(hash, at, bytes) | 1;
  for (std::uint64_t from = 0; from + kSampleBytes <= bytes; from += kSampleEvery)
    hash = mix(hash, at + from, kSampleBytes);
  return mix(hash, at + bytes - kSampleBytes, kSampleBytes) | 1;
}

// Everything that ELF says will be in memory, variables without contents included.
std::uint64_t memory_of(const unsigned char* code, const Elf64_Ehdr& header) {
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read_as<Elf64_Shdr>(code + header.e_shoff + std::uint64_t{i} * header.e_shentsize);
    if ((section.sh_flags & SHF_ALLOC) != 0) bytes += section.sh_size + section.sh_addralign;
  }
  return (bytes + kCodeGranularity - 1) / kCodeGranularity * kCodeGranularity;
}

Image elf_image(const void* code) {
  const auto header = read_as<Elf64_Ehdr>(code);
  const std::uint64_t end = header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize < sizeof(Elf64_Shdr))
    return {0, ImageForm::kBinary, 0};
  return {key_of_bytes(code, end),
          ImageForm::kBinary,
          memory_of(static_cast<const unsigned char*>(code), header)};
}

std::uint64_t place_of(std::uint64_t key) {
  return (key * 0x9e3779b97f4a7c15ULL >> 32) % kImagesMax;
}

}  // namespace

Image image_of(const void* code) {
  if (code == nullptr) return {};
  if (std::strncmp(static_cast<const char*>(code), ELFMAG, SELFMAG) == 0) return elf_image(code);
  const auto* text = static_cast<const char*>(code);
  const std::size_t length = ::strnlen(text, sizeof(Wrapper));
  // Text that is shorter than a header is no header, and may end where its memory does.
  if (length >= sizeof(std::uint32_t) && read_as<std::uint32_t>(code) == kWrapperMagic)
    return image_of(read_as<Wrapper>(code).data);
  if (length >= sizeof(std::uint32_t) && read_as<std::uint32_t>(code) == kFatMagic) {
    const auto header = read_as<FatHeader>(code);
    return {key_of_bytes(code, header.header_bytes + header.bytes), ImageForm::kBinary, 0};
  }
  return {key_of_bytes(code, std::strlen(text)), ImageForm::kText, 0};
}

Image image_in_file(const char* path) {
  struct stat info{};
  if (path == nullptr || ::stat(path, &info) != 0) return {};
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(info.st_dev),
                                 static_cast<std::uint64_t>(info.st_ino),
                                 static_cast<std::uint64_t>(info.st_size),
                                 static_cast<std::uint64_t>(info.st_mtim.tv_sec),
                                 static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
  return {key_of_bytes(facts, sizeof facts), ImageForm::kBinary, 0};
}

ImageBound bound_of(const DeviceLedger& ledger, const Image& image) {
  const Pair known = ledger.known_images[place_of(image.key)].load();
  if (image.key != 0 && known.low == image.key) return {known.high, true};
  if (image.own_bound != 0) return {image.own_bound, false};
  const std::uint64_t most = ledger.image_bytes[static_cast<std::uint32_t>(image.form)].load();
  return {most == 0 ? 0 : std::bit_ceil(std::min<std::uint64_t>(most, 1ULL << 43)), false};
}

void learn_image(DeviceLedger& ledger, const Image& image, std::uint64_t bytes) {
  Word64& most = ledger.image_bytes[static_cast<std::uint32_t>(image.form)];
  std::uint64_t before = most.load();
  while (image.own_bound == 0 && bytes > before && !most.compare_exchange_weak(before, bytes)) {}
  if (image.key == 0) return;
  AtomicPair& place = ledger.known_images[place_of(image.key)];
  place.replace(place.load(), {image.key, bytes});  // Lost to another image: it is learned again.
}

}  // namespace tranche::guard::cuda
