// SPDX-License-Identifier: Apache-2.0
// What can a graph take? Asked of the graph itself when it is instantiated: however its nodes came into it,
// by hand, by capture, in a copy or in a child, they are all there.
#include "guard/cuda/graph_memory.hpp"

#include <algorithm>
#include <sys/mman.h>
#include <type_traits>

namespace tranche::guard::cuda {
namespace {

constexpr int kChildrenDeepMax = 32;
constexpr std::uint64_t kGranularity = 2ULL << 20;  // Where the driver does not tell.

std::uint64_t granularity_of(const Location& location) {
  std::size_t bytes = 0;
  AllocationProperties properties{};
  properties.type = kPinned;
  properties.location = location;
  auto* ask = DRIVER(cuMemGetAllocationGranularity, Result(std::size_t*, const AllocationProperties*, int));
  return ask != nullptr && ask(&bytes, &properties, 0) == kSuccess && bytes > 0 ? bytes : kGranularity;
}

struct Sum {
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
};

void add_node(void* node, Sum& sum) {
  AllocNode allocation{};
  auto* describe = DRIVER(cuGraphMemAllocNodeGetParams, Result(void*, AllocNode*));
  if (describe == nullptr || describe(node, &allocation) != kSuccess) return;
  if (sum.bytes == 0) sum.device = static_cast<std::uint32_t>(std::max(0, allocation.location.id));
  const std::uint64_t unit = granularity_of(allocation.location);
  std::uint64_t bytes = 0;
  if (__builtin_add_overflow(allocation.bytes, unit - 1, &bytes) ||
      __builtin_add_overflow(sum.bytes, bytes / unit * unit, &sum.bytes))
    sum.bytes = UINT64_MAX;
}

void add_graph(void* graph, int deep, Sum& sum) {
  std::size_t count = 0;
  auto* list = DRIVER(cuGraphGetNodes, Result(void*, void**, std::size_t*));
  auto* type_of = DRIVER(cuGraphNodeGetType, Result(void*, int*));
  auto* child_of = DRIVER(cuGraphChildGraphNodeGetGraph, Result(void*, void**));
  if (list == nullptr || type_of == nullptr || list(graph, nullptr, &count) != kSuccess || count == 0) return;
  // From the kernel, not from malloc: the program's allocator may be the one calling us.
  const std::size_t bytes = count * sizeof(void*);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  auto** nodes = static_cast<void**>(memory);
  if (list(graph, nodes, &count) != kSuccess) count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    int type = -1;
    void* child = nullptr;
    if (type_of(nodes[i], &type) != kSuccess) continue;
    if (type == kGraphNodeMemAlloc) add_node(nodes[i], sum);
    if (type == kGraphNodeChild && deep < kChildrenDeepMax && child_of != nullptr &&
        child_of(nodes[i], &child) == kSuccess)
      add_graph(child, deep + 1, sum);
  }
  ::munmap(memory, bytes);
}

}  // namespace

std::uint64_t graph_bytes(void* graph, std::uint32_t& device) {
  Sum sum;
  add_graph(graph, 0, sum);
  device = sum.device;
  return sum.bytes;
}

}  // namespace tranche::guard::cuda
