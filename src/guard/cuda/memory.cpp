// SPDX-License-Identifier: Apache-2.0
// Linear memory: plain, pitched, managed, stream-ordered, shared between processes.
#include <type_traits>

#include "guard/cuda/launch.hpp"
#include "guard/cuda/own_stream.hpp"

namespace tranche::guard::cuda {

PointerTable memory_table;  // NOLINT
PointerTable object_table;  // NOLINT

// Done when it returns: the program may read from any stream, and none of them would wait for another.
void clean_new(std::uint32_t device, Pointer pointer, std::uint64_t bytes) {
  if (!must_zero_on_alloc(device) || OwnStream().zero(pointer, bytes)) return;
  auto* set = DRIVER(cuMemsetD8_v2, Result(Pointer, unsigned char, std::size_t));
  auto* finish = DRIVER(cuStreamSynchronize, Result(Stream));
  if (set != nullptr) set(pointer, 0, bytes);
  if (finish != nullptr) finish(kLegacyStream);
}
// Work on the device like any other: whoever frees in a loop pays for it.
void clean_old(std::uint32_t device, Pointer pointer, std::uint64_t bytes) {
  if (!must_zero_on_free(device, bytes)) return;
  auto* set = DRIVER(cuMemsetD8_v2, Result(Pointer, unsigned char, std::size_t));
  const auto zero = [&] { return set == nullptr ? kNotSupported : set(pointer, 0, bytes); };
  if (device_work(DeviceWork::kSet, bytes, nullptr, StreamKind::kLegacy, zero) != kSuccess)
    report_dirty(device, bytes);
}

namespace {

void remember(Pointer pointer, std::uint64_t bytes, std::uint32_t device, Kind kind) {
  memory_table.insert({pointer, bytes, device, kind, 1, 0});
}

// Memory that another process made and we now keep alive as well.
Result account_shared(const char* api, Pointer pointer) {
  std::size_t bytes = 0;
  Pointer base = 0;
  auto* range = DRIVER(cuMemGetAddressRange_v2, Result(Pointer*, std::size_t*, Pointer));
  if (range == nullptr || range(&base, &bytes, pointer) != kSuccess) return kSuccess;
  const std::uint32_t device = current_device();
  const VramAnswer answer = reserve(device, bytes);
  if (!answer.granted) {
    log_refusal(api, device, bytes, answer);
    return kOutOfMemory;
  }
  remember(pointer, bytes, device, kImported);
  return kSuccess;
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuMemAlloc_v2(Pointer* out, std::size_t bytes) {
  const std::uint32_t device = current_device();
  const Result outcome =
      allocate("cuMemAlloc", device, bytes, [&] { return REAL(cuMemAlloc_v2)(out, bytes); });
  if (outcome == kSuccess) {
    remember(*out, bytes, device, kPlain);
    clean_new(device, *out, bytes);
  }
  return outcome;
}

GUARD_EXPORT Result cuMemFree_v2(Pointer pointer) {
  TableEntry entry;
  const bool ours = memory_table.remove(pointer, entry);
  if (ours) clean_old(entry.device, pointer, entry.bytes);
  const Result outcome = REAL(cuMemFree_v2)(pointer);
  if (ours && outcome == kSuccess) uncharge_pointer(entry);
  if (ours && outcome != kSuccess) memory_table.insert(entry);
  return outcome;
}

GUARD_EXPORT Result cuMemAllocPitch_v2(
    Pointer* out, std::size_t* pitch, std::size_t width, std::size_t height, unsigned element) {
  const std::uint32_t device = current_device();
  // What a row will take is known only afterwards; 512 bytes is the widest alignment in use.
  std::uint64_t guess = 0;
  if (__builtin_mul_overflow((static_cast<std::uint64_t>(width) + 511) / 512 * 512, height, &guess))
    return kOutOfMemory;
  Result outcome = allocate("cuMemAllocPitch", device, guess, [&] {
    return REAL(cuMemAllocPitch_v2)(out, pitch, width, height, element);
  });
  if (outcome != kSuccess) return outcome;
  const std::uint64_t bytes = static_cast<std::uint64_t>(*pitch) * height;
  if (bytes < guess) release(device, guess - bytes);
  if (bytes > guess) {
    const VramAnswer more = reserve(device, bytes - guess);
    if (!more.granted) {
      log_refusal("cuMemAllocPitch", device, bytes, more);
      REAL(cuMemFree_v2)(*out);
      release(device, guess);
      return kOutOfMemory;
    }
  }
  remember(*out, bytes, device, kPlain);
  clean_new(device, *out, bytes);
  return kSuccess;
}

GUARD_EXPORT Result cuMemAllocManaged(Pointer* out, std::size_t bytes, unsigned flags) {
  const std::uint32_t device = current_device();
  const Result outcome = allocate(
      "cuMemAllocManaged", device, bytes, [&] { return REAL(cuMemAllocManaged)(out, bytes, flags); });
  if (outcome == kSuccess) {
    remember(*out, bytes, device, kPlain);
    clean_new(device, *out, bytes);
  }
  return outcome;
}

GUARD_EXPORT Result cuMemPoolImportPointer(Pointer* out, void* pool, void* data) {
  const Result outcome = REAL(cuMemPoolImportPointer)(out, pool, data);
  if (outcome != kSuccess || account_shared("cuMemPoolImportPointer", *out) == kSuccess) return outcome;
  REAL(cuMemFree_v2)(*out);
  return kOutOfMemory;
}

GUARD_EXPORT Result cuIpcOpenMemHandle(Pointer* out, IpcHandle handle, unsigned flags) {
  const Result outcome = REAL(cuIpcOpenMemHandle)(out, handle, flags);
  if (outcome != kSuccess || account_shared("cuIpcOpenMemHandle", *out) == kSuccess) return outcome;
  if (auto* close = DRIVER(cuIpcCloseMemHandle, Result(Pointer))) close(*out);
  return kOutOfMemory;
}
GUARD_EXPORT Result cuIpcOpenMemHandle_v2(Pointer* out, IpcHandle handle, unsigned flags) {
  const Result outcome = REAL(cuIpcOpenMemHandle_v2)(out, handle, flags);
  if (outcome != kSuccess || account_shared("cuIpcOpenMemHandle", *out) == kSuccess) return outcome;
  if (auto* close = DRIVER(cuIpcCloseMemHandle, Result(Pointer))) close(*out);
  return kOutOfMemory;
}
GUARD_EXPORT Result cuIpcCloseMemHandle(Pointer pointer) {
  const Result outcome = REAL(cuIpcCloseMemHandle)(pointer);
  TableEntry entry;
  if (outcome == kSuccess && memory_table.remove(pointer, entry)) release(entry.device, entry.bytes);
  return outcome;
}

GUARD_EXPORT Result cuImportExternalMemory(void** out, const ExternalMemory* description) {
  const std::uint32_t device = current_device();
  const std::uint64_t bytes = description == nullptr ? 0 : description->size;
  const Result outcome = allocate("cuImportExternalMemory", device, bytes, [&] {
    return REAL(cuImportExternalMemory)(out, description);
  });
  if (outcome == kSuccess) object_table.insert({key_of(*out), bytes, device, kImported, 1, 0});
  return outcome;
}
GUARD_EXPORT Result cuDestroyExternalMemory(void* memory) {
  const Result outcome = REAL(cuDestroyExternalMemory)(memory);
  TableEntry entry;
  if (outcome == kSuccess && object_table.remove(key_of(memory), entry)) release(entry.device, entry.bytes);
  return outcome;
}

// The 32-bit interface of CUDA before 3.2. Nothing of today links it; an allocation door less to watch.
GUARD_EXPORT Result cuMemAlloc(std::uint32_t*, unsigned) {
  return kNotSupported;
}
GUARD_EXPORT Result cuMemAllocPitch(std::uint32_t*, unsigned*, unsigned, unsigned, unsigned) {
  return kNotSupported;
}
