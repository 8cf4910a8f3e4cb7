// SPDX-License-Identifier: Apache-2.0
#pragma once
// What graphs and instantiated graphs share.
#include "driver.hpp"

namespace standin {

void copy_graph(const CUgraph_st& from, CUgraph_st& to, std::map<CUgraphNode, CUgraphNode>& own_node);
void set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters);
// Memory of allocation nodes: taken, needed by work that ends then, freed by work that ends then.
CUresult back_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS& wanted);
void needed_until(CUdeviceptr at, std::uint64_t end_ns);
void free_graph_allocation(CUdeviceptr at, std::uint64_t end_ns);
CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& parameters);

}  // namespace standin
