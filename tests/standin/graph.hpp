// SPDX-License-Identifier: Apache-2.0
#pragma once
// What graphs and instantiated graphs share.
#include "driver.hpp"

namespace standin {

void copy_graph(const CUgraph_st& from, CUgraph_st& to, std::map<CUgraphNode, CUgraphNode>& own_node);
void set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters);
CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& parameters);

}  // namespace standin
