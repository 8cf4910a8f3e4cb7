// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of graphs' allocation nodes. A graph takes it when it is first launched or uploaded, and keeps it
// until it is destroyed or a trim finds it unused; how much all graphs hold is what the driver says.
#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {

// Around one launch or upload of an executable graph.
class GraphMemory {
 public:
  // Reserves what the graph may take at most, where it may take anything. False: the limit has no room.
  bool reserve_for(const char* api, void* exec);
  void settle_after(Result outcome);

 private:
  void* exec_ = nullptr;
  std::uint32_t device_ = 0;
  std::uint32_t place_ = 0;
  std::uint32_t trims_ = 0;
  std::uint64_t reserved_ = 0;
};

// Bytes that the allocation nodes of `graph` and of its children can take, and the device of the first one.
std::uint64_t graph_bytes(void* graph, std::uint32_t& device);
void settle_graph_memory(std::uint32_t device);
Result trim_graph_memory(Device device);

}  // namespace tranche::guard::cuda
