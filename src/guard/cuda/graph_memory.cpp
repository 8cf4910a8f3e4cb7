// SPDX-License-Identifier: Apache-2.0
// What can a graph take?
#include "guard/cuda/graph_memory.hpp"

#include <algorithm>

#include "guard/cuda/graph_nodes.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr std::uint64_t kGranularity = 2ULL << 20;  // Where the driver does not tell.

std::uint64_t granularity_of(const Location& location) {
  std::size_t bytes = 0;
  AllocationProperties properties{};
  properties.type = kPinned;
  properties.location = location;
  auto* ask = DRIVER(cuMemGetAllocationGranularity, Result(std::size_t*, const AllocationProperties*, int));
  return ask != nullptr && ask(&bytes, &properties, 0) == kSuccess && bytes > 0 ? bytes : kGranularity;
}

}  // namespace

std::uint64_t graph_bytes(void* graph, std::uint32_t& device) {
  std::uint64_t sum = 0;
  auto add = [&](void*, void*, const AllocNode& allocation) {
    if (sum == 0) device = static_cast<std::uint32_t>(std::max(0, allocation.location.id));
    const std::uint64_t unit = granularity_of(allocation.location);
    std::uint64_t bytes = 0;
    if (__builtin_add_overflow(allocation.bytes, unit - 1, &bytes) ||
        __builtin_add_overflow(sum, bytes / unit * unit, &sum))
      sum = UINT64_MAX;
  };
  device = 0;
  visit_allocations(graph, add);
  return sum;
}

}  // namespace tranche::guard::cuda
