// SPDX-License-Identifier: Apache-2.0
// The memory behind graphs' allocation nodes. It is taken when a graph runs and stays with the device's
// graphs, whatever becomes of the executable, until a trim finds it freed and no queued work that may use it.
#include <algorithm>
#include <sys/mman.h>

#include "driver.hpp"
#include "graph.hpp"

namespace standin {
namespace {

constexpr std::uint64_t kGranularity = 2ULL << 20;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

CUresult take_memory(GraphMemory& memory, const CUDA_MEM_ALLOC_NODE_PARAMS& wanted, unsigned device) {
  Driver& all = driver();
  const std::uint64_t size = rounded(wanted.bytesize);
  {
    const StateLock lock(*all.shared);
    memory.block = take_block(*all.shared, device, size, all.slot);
  }
  if (memory.block == kNone) return CUDA_ERROR_OUT_OF_MEMORY;
  memory.base = wanted.dptr;
  memory.size = wanted.bytesize;
  memory.device = device;
  memory.kind = MemoryKind::kGraph;
  all.graph_reserved[device] += size;
  all.graph_reserved_high[device] = std::max(all.graph_reserved_high[device], all.graph_reserved[device]);
  return map_block(memory.base, device, memory.block, 0, size);
}

void give_back(const GraphMemory& memory) {
  Driver& all = driver();
  all.graph_reserved[memory.device] -= rounded(memory.size);
  {
    const StateLock lock(*all.shared);
    drop_block(*all.shared, memory.device, memory.block, all.slot);
  }
  ::mmap(reinterpret_cast<void*>(memory.base),
         rounded(memory.size),
         PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
         -1,
         0);
}

bool is_unused(const GraphMemory& memory) {
  return !driver().allocations.contains(memory.base) && has_ended(memory.needed_until_ns);
}

}  // namespace

CUresult back_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS& wanted) {
  Driver& all = driver();
  const auto device = static_cast<unsigned>(std::max(0, wanted.poolProps.location.id));
  GraphMemory& memory = all.graph_memory[wanted.dptr];
  const CUresult status =
      memory.block == kNone ? take_memory(memory, wanted, device) : static_cast<CUresult>(CUDA_SUCCESS);
  if (memory.block == kNone) all.graph_memory.erase(wanted.dptr);
  if (status != CUDA_SUCCESS) return status;
  Allocation shown = memory;
  shown.block = kNone;  // The device's graphs own the block, not the pointer.
  all.allocations[wanted.dptr] = shown;
  all.graph_used[device] += rounded(wanted.bytesize);
  all.graph_used_high[device] = std::max(all.graph_used_high[device], all.graph_used[device]);
  return CUDA_SUCCESS;
}

void needed_until(CUdeviceptr at, std::uint64_t end_ns) {
  const auto found = driver().graph_memory.find(at);
  if (found != driver().graph_memory.end())
    found->second.needed_until_ns = std::max(found->second.needed_until_ns, end_ns);
}

void free_graph_allocation(CUdeviceptr at, std::uint64_t end_ns) {
  Driver& all = driver();
  const auto found = all.allocations.find(at);
  if (found == all.allocations.end()) return;
  all.graph_used[found->second.device] -= rounded(found->second.size);
  all.allocations.erase(found);
  needed_until(at, end_ns);
}

}  // namespace standin

using namespace standin;

STANDIN_API cuDeviceGraphMemTrim(CUdevice device) {
  STANDIN_ENTRY(cuDeviceGraphMemTrim);
  Driver& all = driver();
  const Guard guard(all.mutex);
  std::erase_if(all.graph_memory, [&](const auto& each) {
    const GraphMemory& memory = each.second;
    const bool goes = memory.device == static_cast<unsigned>(device) && is_unused(memory);
    if (goes) give_back(memory);
    return goes;
  });
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  STANDIN_ENTRY(cuDeviceGetGraphMemAttribute);
  const Driver& all = driver();
  const std::uint64_t values[] = {all.graph_used[device],
                                  all.graph_used_high[device],
                                  all.graph_reserved[device],
                                  all.graph_reserved_high[device]};
  *static_cast<cuuint64_t*>(value) = values[attribute & 3];
  return CUDA_SUCCESS;
}

STANDIN_API cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void*) {
  STANDIN_ENTRY(cuDeviceSetGraphMemAttribute);
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) all.graph_used_high[device] = all.graph_used[device];
  if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    all.graph_reserved_high[device] = all.graph_reserved[device];
  return CUDA_SUCCESS;
}
