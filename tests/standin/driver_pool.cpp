// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory and its pools: what is freed stays reserved until the next synchronisation, and
// beyond it up to the release threshold.
#include <algorithm>

#include "driver.hpp"
#include "graph.hpp"

namespace standin {
namespace {

void release_cached(CUmemoryPool pool, std::uint64_t keep_bytes) {
  Driver& all = driver();
  const std::uint64_t now = now_ns();
  while (pool->reserved > keep_bytes && !pool->cached.empty()) {
    const auto oldest = pool->cached.front();
    if (oldest.free_at_ns > now) return;
    pool->cached.erase(pool->cached.begin());
    pool->reserved -= oldest.size;
    const StateLock lock(*all.shared);
    drop_block(*all.shared, pool->device, oldest.block, all.slot);
  }
}

CUmemoryPool make_pool(unsigned device) {
  auto* pool = new CUmemPoolHandle_st;
  pool->device = device;
  pool->id = driver().next_id++;
  driver().pools.insert(pool);
  return pool;
}

// A freed block of the same size serves again in its own stream at once, elsewhere when its time has passed.
std::uint32_t reuse(CUmemoryPool pool, std::uint64_t size, CUstream stream) {
  const std::uint64_t now = now_ns();
  for (auto each = pool->cached.rbegin(); each != pool->cached.rend(); ++each) {
    if (each->size != size || (each->stream != stream && each->free_at_ns > now)) continue;
    const std::uint32_t block = each->block;
    pool->cached.erase(std::next(each).base());
    return block;
  }
  return kNone;
}

}  // namespace

CUmemoryPool default_pool(unsigned device) {
  Driver& all = driver();
  if (all.default_pool[device] == nullptr) all.default_pool[device] = make_pool(device);
  return all.default_pool[device];
}

void trim_pools() {
  const Guard guard(driver().mutex);
  for (const CUmemoryPool pool : driver().pools) release_cached(pool, pool->threshold);
}

CUresult allocate_async(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream stream) {
  Driver& all = driver();
  const std::uint64_t size = (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  Allocation made;
  made.block = reuse(pool, size, stream);
  if (made.block == kNone) {
    StateLock lock(*all.shared);
    made.block = take_block(*all.shared, pool->device, bytes, all.slot);
    if (made.block != kNone) pool->reserved += size;
  }
  if (made.block == kNone) {
    release_cached(pool, 0);
    const StateLock lock(*all.shared);
    made.block = take_block(*all.shared, pool->device, bytes, all.slot);
    if (made.block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
    pool->reserved += size;
  }
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  const std::uint64_t offset = all.shared->devices[pool->device].blocks[made.block].offset;
  made.base = reinterpret_cast<CUdeviceptr>(device_memory(pool->device) + offset);
  made.size = bytes;
  made.device = pool->device;
  made.kind = MemoryKind::kAsync;
  made.pool = pool;
  made.context = stream->context;
  all.allocations[made.base] = made;
  *out = made.base;
  return CUDA_SUCCESS;
}

void free_into_pool(CUdeviceptr pointer, CUstream stream) {
  Driver& all = driver();
  const auto found = all.allocations.find(pointer);
  const Allocation gone = found->second;
  all.allocations.erase(found);
  const std::uint64_t size = (gone.size + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  gone.pool->used -= size;
  gone.pool->cached.push_back({gone.block, size, stream_front(stream), stream});
}

}  // namespace standin

using namespace standin;

STANDIN_API cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream handle) {
  STANDIN_ENTRY(cuMemAllocFromPoolAsync);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || pool == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!stream->capture) return allocate_async(out, bytes, pool, stream);
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(pool->device)};
  parameters.bytesize = bytes;
  const CUresult status = cuGraphAddMemAllocNode(
      &node, stream->capture->graph, stream->capture_tail.data(), stream->capture_tail.size(), &parameters);
  if (status != CUDA_SUCCESS) return status;
  stream->capture_tail = {node};
  *out = parameters.dptr;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream handle) {
  STANDIN_ENTRY(cuMemAllocAsync);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  CUmemoryPool pool = driver().current_pool[stream->context->device];
  if (pool == nullptr) pool = default_pool(stream->context->device);
  return cuMemAllocFromPoolAsync(out, bytes, pool, handle);
}

STANDIN_API cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  STANDIN_ENTRY(cuMemFreeAsync);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (pointer == 0) return CUDA_SUCCESS;
  Driver& all = driver();
  const Guard guard(all.mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->capture) {
    if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
    CUgraphNode node = nullptr;
    const CUresult status = cuGraphAddMemFreeNode(
        &node, stream->capture->graph, stream->capture_tail.data(), stream->capture_tail.size(), pointer);
    if (status == CUDA_SUCCESS) stream->capture_tail = {node};
    return status;
  }
  const auto found = all.allocations.find(pointer);
  if (found == all.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.kind == MemoryKind::kAsync) {
    free_into_pool(pointer, stream);
    return CUDA_SUCCESS;
  }
  if (found->second.kind == MemoryKind::kGraph) {
    free_graph_allocation(pointer, stream_front(stream));
    return CUDA_SUCCESS;
  }
  if (found->second.kind != MemoryKind::kPlain) return CUDA_ERROR_INVALID_VALUE;
  // Plain memory freed in stream order: it returns to the device when the stream gets there.
  CUmemoryPool pool = default_pool(found->second.device);
  const std::uint64_t size = (found->second.size + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  pool->reserved += size;
  pool->used += size;
  found->second.pool = pool;
  free_into_pool(pointer, stream);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  STANDIN_ENTRY(cuMemPoolCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || properties == nullptr || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  const auto device = static_cast<unsigned>(properties->location.id);
  if (device >= driver().config().device_count) return CUDA_ERROR_INVALID_DEVICE;
  const Guard guard(driver().mutex);
  if (device_memory(device) == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = make_pool(device);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolDestroy(CUmemoryPool pool) {
  STANDIN_ENTRY(cuMemPoolDestroy);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (pool == nullptr || all.default_pool[pool->device] == pool || !all.pools.contains(pool))
    return CUDA_ERROR_INVALID_VALUE;
  release_cached(pool, 0);
  if (all.current_pool[pool->device] == pool) all.current_pool[pool->device] = nullptr;
  if (pool->used == 0 && pool->cached.empty())
    all.pools.erase(pool);  // Otherwise it lives until its memory is freed.
  pool->threshold = 0;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  STANDIN_ENTRY(cuMemPoolTrimTo);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  release_cached(pool, keep);
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  STANDIN_ENTRY(cuMemPoolGetAttribute);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = 1;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = pool->threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = pool->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = pool->reserved_high;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = pool->used_high;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  STANDIN_ENTRY(cuMemPoolSetAttribute);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->threshold = *static_cast<cuuint64_t*>(value);
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->reserved_high = pool->reserved;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->used_high = pool->used;
  return CUDA_SUCCESS;
}

STANDIN_API cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  STANDIN_ENTRY(cuMemPoolSetAccess);
  return ready();
}

STANDIN_API cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetDefaultMemPool);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  *out = default_pool(static_cast<unsigned>(device));
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  STANDIN_ENTRY(cuDeviceGetMemPool);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const CUmemoryPool current = driver().current_pool[device];
  *out = current == nullptr ? default_pool(static_cast<unsigned>(device)) : current;
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  STANDIN_ENTRY(cuDeviceSetMemPool);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  driver().current_pool[device] = pool;
  return CUDA_SUCCESS;
}
