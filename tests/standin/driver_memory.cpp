// SPDX-License-Identifier: Apache-2.0
// Plain, pitched, managed and host memory of the stand-in driver, and questions about pointers.
#include <cstdlib>
#include <cstring>

#include "driver.hpp"
#include "graph.hpp"

namespace standin {
namespace {

constexpr std::uint64_t kPitchAlign = 512;

std::uint64_t context_tail() {
  const Guard guard(driver().mutex);
  return current_context()->any_tail_ns;
}

}  // namespace

CUresult allocate(CUcontext context, std::uint64_t bytes, MemoryKind kind, Allocation& out) {
  Driver& all = driver();
  std::uint32_t block = kNone;
  std::uint64_t offset = 0;
  {
    const StateLock lock(*all.shared);
    block = take_block(*all.shared, context->device, bytes, all.slot);
    if (block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
    offset = all.shared->devices[context->device].blocks[block].offset;
  }
  out.base = reinterpret_cast<CUdeviceptr>(device_memory(context->device) + offset);
  out.size = bytes;
  out.device = context->device;
  out.block = block;
  out.kind = kind;
  out.context = context;
  all.allocations[out.base] = out;
  return CUDA_SUCCESS;
}

CUresult free_allocation(CUdeviceptr pointer) {
  Driver& all = driver();
  const auto found = all.allocations.find(pointer);
  if (found == all.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const Allocation gone = found->second;
  all.allocations.erase(found);
  if (gone.block != kNone) {
    const StateLock lock(*all.shared);
    drop_block(*all.shared, gone.device, gone.block, all.slot);
  }
  return CUDA_SUCCESS;
}

const Allocation* find_allocation(CUdeviceptr pointer) {
  const auto& allocations = driver().allocations;
  if (const auto found = allocations.find(pointer); found != allocations.end()) return &found->second;
  for (const auto& [base, allocation] : allocations)
    if (pointer > base && pointer < base + allocation.size) return &allocation;
  return nullptr;
}

}  // namespace standin

using namespace standin;

STANDIN_API cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  STANDIN_ENTRY(cuMemAlloc_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Guard guard(driver().mutex);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  Allocation made;
  const CUresult status = allocate(current_context(), bytes, MemoryKind::kPlain, made);
  if (status == CUDA_SUCCESS) *out = made.base;
  return status;
}

STANDIN_API cuMemAllocPitch_v2(
    CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned int element) {
  STANDIN_ENTRY(cuMemAllocPitch_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint64_t real_pitch = (width + kPitchAlign - 1) / kPitchAlign * kPitchAlign;
  std::uint64_t bytes = 0;
  if (real_pitch < width || __builtin_mul_overflow(real_pitch, height, &bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const Guard guard(driver().mutex);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  Allocation made;
  const CUresult status = allocate(current_context(), bytes, MemoryKind::kPlain, made);
  if (status != CUDA_SUCCESS) return status;
  *out = made.base;
  *pitch = real_pitch;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int) {
  STANDIN_ENTRY(cuMemAllocManaged);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Guard guard(driver().mutex);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  Allocation made;
  const CUresult status = allocate(current_context(), bytes, MemoryKind::kManaged, made);
  if (status == CUDA_SUCCESS) *out = made.base;
  return status;
}

// Waits for the context's queued work first, as the real driver does; takes asynchronous pointers too.
STANDIN_API cuMemFree_v2(CUdeviceptr pointer) {
  STANDIN_ENTRY(cuMemFree_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (pointer == 0) return CUDA_SUCCESS;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  wait_until_known(context_tail());
  Driver& all = driver();
  const Guard guard(all.mutex);
  const auto found = all.allocations.find(pointer);
  if (found == all.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  switch (found->second.kind) {
    case MemoryKind::kAsync:
      free_into_pool(pointer, current_context()->legacy);
      trim_pools();
      return CUDA_SUCCESS;
    case MemoryKind::kPlain:
    case MemoryKind::kManaged:
    case MemoryKind::kExternal:
      return free_allocation(pointer);
    case MemoryKind::kGraph:
      free_graph_allocation(pointer, 0);
      return CUDA_SUCCESS;
    case MemoryKind::kMapped:
    case MemoryKind::kImported:
    case MemoryKind::kHost:
      break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  STANDIN_ENTRY(cuMemGetInfo_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Driver& all = driver();
  const StateLock lock(*all.shared);
  reclaim_dead(*all.shared);
  if (free_bytes != nullptr) *free_bytes = all.shared->devices[current_context()->device].free_bytes;
  if (total_bytes != nullptr) *total_bytes = all.config().vram_bytes;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  STANDIN_ENTRY(cuMemGetAddressRange_v2);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const Allocation* found = find_allocation(pointer);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->base;
  if (size != nullptr) *size = found->size;
  return CUDA_SUCCESS;
}

STANDIN_API cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  STANDIN_ENTRY(cuPointerGetAttribute);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const Allocation* found = find_allocation(pointer);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = found->context;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(out) =
          found->kind == MemoryKind::kHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(out) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(out) = found->kind == MemoryKind::kManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = static_cast<int>(found->device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = found->base;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(out) = found->size;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      break;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

STANDIN_API cuPointerGetAttributes(unsigned int count,
                                   CUpointer_attribute* which,
                                   void** out,
                                   CUdeviceptr pointer) {
  STANDIN_ENTRY(cuPointerGetAttributes);
  for (unsigned index = 0; index < count; ++index) cuPointerGetAttribute(out[index], which[index], pointer);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemHostAlloc(void** out, size_t bytes, unsigned int) {
  STANDIN_ENTRY(cuMemHostAlloc);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Guard guard(driver().mutex);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  *out = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*out == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation made;
  made.base = reinterpret_cast<CUdeviceptr>(*out);
  made.size = bytes;
  made.kind = MemoryKind::kHost;
  driver().allocations[made.base] = made;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemAllocHost_v2(void** out, size_t bytes) {
  STANDIN_ENTRY(cuMemAllocHost_v2);
  return cuMemHostAlloc(out, bytes, 0);
}

STANDIN_API cuMemFreeHost(void* pointer) {
  STANDIN_ENTRY(cuMemFreeHost);
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  if (current_context() != nullptr) wait_until_known(context_tail());
  const Guard guard(driver().mutex);
  if (driver().allocations.erase(reinterpret_cast<CUdeviceptr>(pointer)) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::free(pointer);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int) {
  STANDIN_ENTRY(cuMemHostGetDevicePointer_v2);
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemHostGetFlags(unsigned int* flags, void*) {
  STANDIN_ENTRY(cuMemHostGetFlags);
  *flags = 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int) {
  STANDIN_ENTRY(cuMemHostRegister_v2);
  const Guard guard(driver().mutex);
  driver().host_registered[pointer] = bytes;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemHostUnregister(void* pointer) {
  STANDIN_ENTRY(cuMemHostUnregister);
  const Guard guard(driver().mutex);
  return driver().host_registered.erase(pointer) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
