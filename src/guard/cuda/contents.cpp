// SPDX-License-Identifier: Apache-2.0
// What is in memory that changes hands: arrays are zeroed, and a range is zeroed and read back on request.
#include <algorithm>
#include <sys/mman.h>
#include <type_traits>

#include "guard/cuda/launch.hpp"
#include "guard/nonzero.hpp"
#include "guard/tranche_guard.h"

namespace tranche::guard::cuda {

std::uint64_t element_bytes(int format, unsigned channels) {
  switch (format) {
    case 0x01:
    case 0x08:
      return channels;
    case 0x02:
    case 0x09:
    case 0x10:
      return 2ULL * channels;
    case 0x03:
    case 0x0a:
    case 0x20:
      return 4ULL * channels;
    default:
      return 16;  // Packed, planar and compressed formats: never more, put right by the driver's own figure.
  }
}

namespace {

constexpr std::size_t kZeros = 4ULL << 20;

// Pages that nobody writes: the kernel keeps one page of zeros behind them all.
const void* zeros() {
  static std::atomic<void*> pages;
  void* known = pages.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  known = ::mmap(nullptr, kZeros, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (known == MAP_FAILED) return nullptr;
  pages.store(known, std::memory_order_release);
  return known;
}

bool zero_rows(void* array, const Array3DDescriptor& shape, std::uint64_t row_bytes, std::size_t layer) {
  auto* copy = DRIVER(cuMemcpy3D_v2, Result(const Copy3D*));
  const void* source = zeros();
  if (copy == nullptr || source == nullptr || row_bytes == 0 || row_bytes > kZeros) return false;
  const std::size_t height = std::max<std::size_t>(shape.height, 1);
  const std::size_t at_once = kZeros / row_bytes;
  for (std::size_t row = 0; row < height; row += at_once) {
    Copy3D piece{};
    piece.source_type = kHostMemory;
    piece.source_host = source;
    piece.source_pitch = row_bytes;
    piece.target_type = kArrayMemory;
    piece.target_array = array;
    piece.target_y = row;
    piece.target_z = layer;
    piece.width_bytes = row_bytes;
    piece.height = std::min(at_once, height - row);
    piece.source_height = piece.height;
    piece.depth = 1;
    const std::uint64_t bytes = row_bytes * piece.height;
    if (before_copy(current_device(), bytes).ended || copy(&piece) != kSuccess) return false;
  }
  return true;
}

bool zero_array(void* array) {
  Array3DDescriptor shape{};
  auto* describe = DRIVER(cuArray3DGetDescriptor_v2, Result(Array3DDescriptor*, void*));
  if (describe == nullptr || describe(&shape, array) != kSuccess) return false;
  const std::uint64_t row_bytes = element_bytes(shape.format, shape.channels) * shape.width;
  for (std::size_t layer = 0; layer < std::max<std::size_t>(shape.depth, 1); ++layer)
    if (!zero_rows(array, shape, row_bytes, layer)) return false;
  return true;
}

bool zero_levels(void* array, unsigned levels) {
  if (levels == 0) return zero_array(array);
  auto* level_of = DRIVER(cuMipmappedArrayGetLevel, Result(void**, void*, unsigned));
  for (unsigned level = 0; level < levels; ++level) {
    void* part = nullptr;
    if (level_of == nullptr || level_of(&part, array, level) != kSuccess || !zero_array(part)) return false;
  }
  return true;
}

}  // namespace

void clean_new_array(std::uint32_t device, void* array, unsigned levels) {
  if (!must_zero_on_alloc(device)) return;
  zero_levels(array, levels);
  if (auto* finish = DRIVER(cuStreamSynchronize, Result(Stream))) finish(kLegacyStream);
}

void clean_old_array(std::uint32_t device, void* array, unsigned levels, std::uint64_t bytes) {
  if (must_zero_on_free(device, bytes) && !zero_levels(array, levels)) report_dirty(device, bytes);
}

namespace {

// Two pinned buffers and a stream of our own, so that the bus is never idle.
struct ReadBack {
  Stream stream = nullptr;
  void* buffers[2] = {};
  Event done[2] = {};

  bool open() {
    auto* make_stream = DRIVER(cuStreamCreate, Result(Stream*, unsigned));
    auto* make_buffer = DRIVER(cuMemHostAlloc, Result(void**, std::size_t, unsigned));
    auto* make_event = DRIVER(cuEventCreate, Result(Event*, unsigned));
    if (make_stream == nullptr || make_buffer == nullptr || make_event == nullptr) return false;
    bool made = make_stream(&stream, kStreamNonBlocking) == kSuccess;
    for (int i = 0; i < 2; ++i)
      made = made && make_buffer(&buffers[i], kReadBackPiece, 0) == kSuccess &&
             make_event(&done[i], kEventDefault) == kSuccess;
    return made;
  }
  ~ReadBack() {
    auto* drop_stream = DRIVER(cuStreamDestroy_v2, Result(Stream));
    auto* drop_buffer = DRIVER(cuMemFreeHost, Result(void*));
    auto* drop_event = DRIVER(cuEventDestroy_v2, Result(Event));
    for (int i = 0; i < 2; ++i) {
      if (done[i] != nullptr && drop_event != nullptr) drop_event(done[i]);
      if (buffers[i] != nullptr && drop_buffer != nullptr) drop_buffer(buffers[i]);
    }
    if (stream != nullptr && drop_stream != nullptr) drop_stream(stream);
  }
  ReadBack() = default;
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;
};

Result verify(Pointer pointer, std::size_t bytes, std::uint64_t& nonzero) {
  ReadBack back;
  auto* copy = DRIVER(cuMemcpyDtoHAsync_v2, Result(void*, Pointer, std::size_t, Stream));
  auto* record = DRIVER(cuEventRecord, Result(Event, Stream));
  auto* wait = DRIVER(cuEventSynchronize, Result(Event));
  if (copy == nullptr || record == nullptr || wait == nullptr || !back.open()) return kNotSupported;
  const std::size_t pieces = (bytes + kReadBackPiece - 1) / kReadBackPiece;
  const auto length = [&](std::size_t i) { return std::min(kReadBackPiece, bytes - i * kReadBackPiece); };
  for (std::size_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      if (before_copy(current_device(), length(i)).ended) return kLaunchTimeout;
      if (const Result r = copy(back.buffers[i % 2], pointer + i * kReadBackPiece, length(i), back.stream);
          r != 0)
        return r;
      if (const Result r = record(back.done[i % 2], back.stream); r != 0) return r;
    }
    if (i == 0) continue;
    if (const Result r = wait(back.done[(i - 1) % 2]); r != 0) return r;
    nonzero += count_nonzero(back.buffers[(i - 1) % 2], length(i - 1));
  }
  return kSuccess;
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard::cuda;  // NOLINT: this is the border.

extern "C" __attribute__((visibility("default"))) int tranche_guard_cuda_zero_and_verify(
    uint64_t device_pointer, size_t bytes, uint64_t* nonzero_bytes) {
  auto* set = DRIVER(cuMemsetD8_v2, int(Pointer, unsigned char, std::size_t));
  auto* finish = DRIVER(cuCtxSynchronize, int());
  if (nonzero_bytes == nullptr || bytes == 0) return kInvalidValue;
  *nonzero_bytes = 0;
  if (set == nullptr || finish == nullptr) return kNotSupported;
  const int zeroed = device_work(
      DeviceWork::kSet, bytes, nullptr, StreamKind::kLegacy, [&] { return set(device_pointer, 0, bytes); });
  if (zeroed != kSuccess) return zeroed;
  if (const int done = finish(); done != kSuccess) return done;
  return verify(device_pointer, bytes, *nonzero_bytes);
}
