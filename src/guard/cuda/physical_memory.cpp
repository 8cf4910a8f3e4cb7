// SPDX-License-Identifier: Apache-2.0
// Memory with a life of its own: physical allocations and their mappings, arrays.
#include <algorithm>
#include <type_traits>

#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {
namespace {

// Sparse and deferred arrays are mapped onto physical memory that was charged when it was created.
constexpr unsigned kNoOwnMemory = 0x40 | 0x80;

// Physical memory lives until the last handle is released and the last mapping is gone.
void drop_if_unused(Handle handle) {
  bool unused = false;
  object_table.update(handle,
                      [&](TableEntry& entry) { unused = entry.references == 0 && entry.mappings == 0; });
  TableEntry entry;
  if (unused && object_table.remove(handle, entry)) release(entry.device, entry.bytes);
}

bool array_bytes(const Array3DDescriptor& array, std::uint64_t& bytes) {
  bytes = element_bytes(array.format, array.channels);
  return !__builtin_mul_overflow(bytes, array.width, &bytes) &&
         !__builtin_mul_overflow(bytes, std::max<std::size_t>(array.height, 1), &bytes) &&
         !__builtin_mul_overflow(bytes, std::max<std::size_t>(array.depth, 1), &bytes);
}

// The driver knows what an array really takes; the account follows it. False: over the limit.
bool settle_array(const char* api,
                  void* array,
                  std::uint32_t device,
                  std::uint64_t guess,
                  std::uint64_t real_bytes,
                  unsigned levels = 0) {
  if (real_bytes == 0) real_bytes = guess;
  if (real_bytes > guess) {
    const VramAnswer more = reserve(device, real_bytes - guess);
    if (!more.granted) {
      log_refusal(api, device, real_bytes, more);
      release(device, guess);
      return false;
    }
  } else {
    release(device, guess - real_bytes);
  }
  object_table.insert({key_of(array), real_bytes, device, kArray, 1, levels});
  clean_new_array(device, array, levels);
  return true;
}

std::uint64_t required_bytes(void* array, std::uint32_t device) {
  MemoryRequirements needs{};
  auto* ask = DRIVER(cuArrayGetMemoryRequirements, Result(MemoryRequirements*, void*, Device));
  return ask != nullptr && ask(&needs, array, static_cast<Device>(device)) == kSuccess ? needs.size : 0;
}
std::uint64_t required_mipmap_bytes(void* array, std::uint32_t device) {
  MemoryRequirements needs{};
  auto* ask = DRIVER(cuMipmappedArrayGetMemoryRequirements, Result(MemoryRequirements*, void*, Device));
  return ask != nullptr && ask(&needs, array, static_cast<Device>(device)) == kSuccess ? needs.size : 0;
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuMemCreate(Handle* out,
                                std::size_t bytes,
                                const AllocationProperties* properties,
                                unsigned long long flags) {
  if (properties == nullptr || properties->location.type != kLocationDevice)
    return REAL(cuMemCreate)(out, bytes, properties, flags);  // Host memory is the host's business.
  const auto device = static_cast<std::uint32_t>(properties->location.id);
  const Result outcome = allocate(
      "cuMemCreate", device, bytes, [&] { return REAL(cuMemCreate)(out, bytes, properties, flags); });
  if (outcome == kSuccess) object_table.insert({*out, bytes, device, kPhysical, 1, 0});
  return outcome;
}

GUARD_EXPORT Result cuMemRelease(Handle handle) {
  const Result outcome = REAL(cuMemRelease)(handle);
  if (outcome == kSuccess) {
    object_table.update(handle,
                        [](TableEntry& entry) { entry.references -= entry.references > 0 ? 1U : 0U; });
    drop_if_unused(handle);
  }
  return outcome;
}

GUARD_EXPORT Result cuMemRetainAllocationHandle(Handle* out, void* address) {
  const Result outcome = REAL(cuMemRetainAllocationHandle)(out, address);
  if (outcome == kSuccess) object_table.update(*out, [](TableEntry& entry) { ++entry.references; });
  return outcome;
}

// Whoever imports keeps the memory alive after its maker is gone, so it is charged to the importer as well.
GUARD_EXPORT Result cuMemImportFromShareableHandle(Handle* out, void* os_handle, int type) {
  const Result outcome = REAL(cuMemImportFromShareableHandle)(out, os_handle, type);
  if (outcome != kSuccess) return outcome;
  bool known = false;
  object_table.update(*out, [&](TableEntry& entry) {
    ++entry.references;
    known = true;
  });
  // Sized when it is mapped; its contents are somebody's.
  if (!known) object_table.insert({*out, 0, current_device(), kPhysical, 1, 0, 1});
  return outcome;
}

GUARD_EXPORT Result
cuMemMap(Pointer pointer, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long flags) {
  std::uint64_t missing = 0;
  std::uint32_t device = 0;
  object_table.update(handle, [&](TableEntry& entry) {
    device = entry.device;
    if (entry.kind == kPhysical && entry.bytes < offset + bytes) missing = offset + bytes - entry.bytes;
  });
  if (missing > 0) {
    const VramAnswer answer = reserve(device, missing);
    if (!answer.granted) {
      log_refusal("cuMemMap", device, missing, answer);
      return kOutOfMemory;
    }
    object_table.update(handle, [&](TableEntry& entry) { entry.bytes += missing; });
  }
  const Result outcome = REAL(cuMemMap)(pointer, bytes, offset, handle, flags);
  if (outcome == kSuccess) {
    object_table.update(handle, [](TableEntry& entry) { ++entry.mappings; });
    memory_table.insert({pointer, handle, device, kMapping, static_cast<std::uint32_t>(bytes >> 12), 0});
  }
  return outcome;
}

// Memory can be written only from here on: the first to get access zeroes it, where that is asked for.
GUARD_EXPORT Result cuMemSetAccess(Pointer pointer,
                                   std::size_t bytes,
                                   const void* access,
                                   std::size_t count) {
  const Result outcome = REAL(cuMemSetAccess)(pointer, bytes, access, count);
  if (outcome != kSuccess || !must_zero_on_alloc(current_device())) return outcome;
  for (Pointer at = pointer; at < pointer + bytes;) {
    TableEntry mapping;
    bool dirty = false;
    if (!memory_table.update(at, [&](TableEntry& each) { mapping = each; }) || mapping.kind != kMapping)
      break;
    object_table.update(mapping.bytes, [&](TableEntry& object) {
      dirty = object.clean == 0 && object.mappings == 1;
      object.clean = 1;
    });
    const std::uint64_t length = std::uint64_t{mapping.references} << 12;
    if (dirty) clean_new(mapping.device, at, length);
    at += length;
  }
  return outcome;
}

GUARD_EXPORT Result cuMemUnmap(Pointer pointer, std::size_t bytes) {
  const std::uint32_t device = current_device();
  clean_old(device, pointer, bytes);
  const Result outcome = REAL(cuMemUnmap)(pointer, bytes);
  if (outcome != kSuccess) return outcome;
  // One call may unmap several mappings that lie side by side.
  for (Pointer at = pointer; at < pointer + bytes;) {
    TableEntry entry;
    if (!memory_table.remove(at, entry) || entry.kind != kMapping) break;
    object_table.update(entry.bytes,
                        [](TableEntry& object) { object.mappings -= object.mappings > 0 ? 1U : 0U; });
    drop_if_unused(entry.bytes);
    at += std::uint64_t{entry.references} << 12;
  }
  return outcome;
}

GUARD_EXPORT Result cuArrayCreate_v2(void** out, const ArrayDescriptor* array) {
  if (array == nullptr) return REAL(cuArrayCreate_v2)(out, array);
  std::uint64_t guess = 0;
  if (!array_bytes({array->width, array->height, 0, array->format, array->channels, 0}, guess))
    return kOutOfMemory;
  const std::uint32_t device = current_device();
  const Result outcome =
      allocate("cuArrayCreate", device, guess, [&] { return REAL(cuArrayCreate_v2)(out, array); });
  if (outcome != kSuccess || settle_array("cuArrayCreate", *out, device, guess, required_bytes(*out, device)))
    return outcome;
  if (auto* destroy = DRIVER(cuArrayDestroy, Result(void*))) destroy(*out);
  return kOutOfMemory;
}

GUARD_EXPORT Result cuArray3DCreate_v2(void** out, const Array3DDescriptor* array) {
  if (array == nullptr || (array->flags & kNoOwnMemory) != 0) return REAL(cuArray3DCreate_v2)(out, array);
  std::uint64_t guess = 0;
  if (!array_bytes(*array, guess)) return kOutOfMemory;
  const std::uint32_t device = current_device();
  const Result outcome =
      allocate("cuArray3DCreate", device, guess, [&] { return REAL(cuArray3DCreate_v2)(out, array); });
  if (outcome != kSuccess ||
      settle_array("cuArray3DCreate", *out, device, guess, required_bytes(*out, device)))
    return outcome;
  if (auto* destroy = DRIVER(cuArrayDestroy, Result(void*))) destroy(*out);
  return kOutOfMemory;
}

GUARD_EXPORT Result cuArrayDestroy(void* array) {
  TableEntry known;
  if (object_table.update(key_of(array), [&](TableEntry& each) { known = each; }))
    clean_old_array(known.device, array, 0, known.bytes);
  const Result outcome = REAL(cuArrayDestroy)(array);
  TableEntry entry;
  if (outcome == kSuccess && object_table.remove(key_of(array), entry)) release(entry.device, entry.bytes);
  return outcome;
}

GUARD_EXPORT Result cuMipmappedArrayCreate(void** out, const Array3DDescriptor* array, unsigned levels) {
  if (array == nullptr || (array->flags & kNoOwnMemory) != 0)
    return REAL(cuMipmappedArrayCreate)(out, array, levels);
  std::uint64_t guess = 0;
  if (!array_bytes(*array, guess) || __builtin_mul_overflow(guess, 2ULL, &guess)) return kOutOfMemory;
  const std::uint32_t device = current_device();
  const Result outcome = allocate("cuMipmappedArrayCreate", device, guess, [&] {
    return REAL(cuMipmappedArrayCreate)(out, array, levels);
  });
  if (outcome != kSuccess ||
      settle_array(
          "cuMipmappedArrayCreate", *out, device, guess, required_mipmap_bytes(*out, device), levels))
    return outcome;
  if (auto* destroy = DRIVER(cuMipmappedArrayDestroy, Result(void*))) destroy(*out);
  return kOutOfMemory;
}

GUARD_EXPORT Result cuMipmappedArrayDestroy(void* array) {
  TableEntry known;
  if (object_table.update(key_of(array), [&](TableEntry& each) { known = each; }))
    clean_old_array(known.device, array, known.mappings, known.bytes);
  const Result outcome = REAL(cuMipmappedArrayDestroy)(array);
  TableEntry entry;
  if (outcome == kSuccess && object_table.remove(key_of(array), entry)) release(entry.device, entry.bytes);
  return outcome;
}

GUARD_EXPORT Result cuArrayCreate(void**, const void*) {
  return kNotSupported;
}
GUARD_EXPORT Result cuArray3DCreate(void**, const void*) {
  return kNotSupported;
}
