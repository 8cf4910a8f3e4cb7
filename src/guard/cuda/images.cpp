// SPDX-License-Identifier: Apache-2.0
#include "guard/cuda/images.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/image_sizes.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x466243b1;  // __fatBinC_Wrapper_t
constexpr std::uint64_t kWholeBytes = 1ULL << 20;    // Larger images are hashed in samples.
constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kSampleEvery = 64 * kSampleBytes;

struct Wrapper {
  std::uint32_t magic, version;
  const void* data;
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

bool is_elf(const void* code) {
  return std::memcmp(code, ELFMAG, SELFMAG) == 0;
}

// What a file says; `length` is its own.
StatedSize size_in_file(const void* code, std::uint64_t length) {
  if (length < sizeof(Elf64_Ehdr)) return {};
  if (is_elf(code)) return size_in_elf(code, length);
  if (fat_binary_length(code) != 0) return size_in_fat_binary(code, length);
  return size_in_text(static_cast<const char*>(code), length);
}

std::uint64_t place_of(std::uint64_t key) {
  return (key * 0x9e3779b97f4a7c15ULL >> 32) % kImagesMax;
}

}  // namespace

Image image_of(const void* code) {
  if (code == nullptr) return {};
  const auto* text = static_cast<const char*>(code);
  // Text that is shorter than a header is no header, and may end where its memory does.
  const std::size_t length = ::strnlen(text, sizeof(Wrapper));
  if (length >= SELFMAG && is_elf(code)) {
    const std::uint64_t bytes = elf_length(code);
    if (bytes == 0) return {0, ImageForm::kBinary, {}};
    return {key_of_bytes(code, bytes), ImageForm::kBinary, size_in_elf(code, bytes)};
  }
  if (length >= sizeof(std::uint32_t) && read_as<std::uint32_t>(code) == kWrapperMagic)
    return image_of(read_as<Wrapper>(code).data);
  if (length >= sizeof(std::uint32_t) && fat_binary_length(code) != 0) {
    const std::uint64_t bytes = fat_binary_length(code);
    return {key_of_bytes(code, bytes), ImageForm::kBinary, size_in_fat_binary(code, bytes)};
  }
  const std::uint64_t bytes = std::strlen(text);
  return {key_of_bytes(code, bytes), ImageForm::kText, size_in_text(text, bytes)};
}

Image image_in_file(const char* path) {
  struct stat info{};
  if (path == nullptr || ::stat(path, &info) != 0) return {};
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(info.st_dev),
                                 static_cast<std::uint64_t>(info.st_ino),
                                 static_cast<std::uint64_t>(info.st_size),
                                 static_cast<std::uint64_t>(info.st_mtim.tv_sec),
                                 static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
  Image image{key_of_bytes(facts, sizeof facts), ImageForm::kBinary, {}};
  const auto length = static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  void* code =
      file < 0 || length == 0 ? MAP_FAILED : ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, file, 0);
  if (code != MAP_FAILED) {
    image.stated = size_in_file(code, length);
    ::munmap(code, length);
  }
  if (file >= 0) ::close(file);
  return image;
}

ImageBound bound_of(const DeviceLedger& ledger, const Image& image) {
  const Pair known = ledger.known_images[place_of(image.key)].load();
  if (image.key != 0 && known.low == image.key) return {known.high, true};
  if (image.stated.whole) return {image.stated.bytes, false};
  const std::uint64_t most = ledger.image_bytes[static_cast<std::uint32_t>(image.form)].load();
  const std::uint64_t like_others = most == 0 ? 0 : std::bit_ceil(std::min<std::uint64_t>(most, 1ULL << 43));
  return {std::max(like_others, image.stated.bytes), false};
}

void learn_image(DeviceLedger& ledger, const Image& image, std::uint64_t bytes, bool typical) {
  Word64& most = ledger.image_bytes[static_cast<std::uint32_t>(image.form)];
  std::uint64_t before = most.load();
  while (typical && !image.stated.whole && bytes > before && !most.compare_exchange_weak(before, bytes)) {}
  if (image.key == 0) return;
  AtomicPair& place = ledger.known_images[place_of(image.key)];
  place.replace(place.load(), {image.key, bytes});  // Lost to another image: it is learned again.
}

}  // namespace tranche::guard::cuda
