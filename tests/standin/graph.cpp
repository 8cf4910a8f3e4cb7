// SPDX-License-Identifier: Apache-2.0
// Graphs under construction: nodes, their order and their parameters.
#include "graph.hpp"

#include <algorithm>
#include <set>

namespace standin {

CUgraphNode new_node(CUgraph graph, CUgraphNodeType type, const CUgraphNode* after, std::size_t count) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->graph = graph;
  node->type = type;
  if (count != 0) node->after.assign(after, after + count);
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

namespace {

// An order in which they can run: an edge may lead to a node that was there before the one it comes from.
std::vector<CUgraphNode> legal_order(const CUgraph_st& graph) {
  std::vector<CUgraphNode> order;
  std::set<CUgraphNode> placed;
  for (bool found = true; found;) {
    found = false;
    for (const auto& node : graph.nodes) {
      const bool free = std::all_of(node->after.begin(), node->after.end(), [&](CUgraphNode before) {
        return placed.contains(before);
      });
      if (!free || !placed.insert(node.get()).second) continue;
      order.push_back(node.get());
      found = true;
    }
  }
  return order;
}

// Handles of a graph that is gone name nothing any more, in executables neither.
void forget_nodes(const CUgraph_st& graph) {
  for (const auto& node : graph.nodes) {
    for (const CUgraphExec exec : driver().execs) exec->own_node.erase(node.get());
    if (node->child != nullptr) forget_nodes(*node->child);
  }
}

}  // namespace

void copy_graph(const CUgraph_st& from, CUgraph_st& to, std::map<CUgraphNode, CUgraphNode>& own_node) {
  for (const CUgraphNode node : legal_order(from)) {
    auto copy = std::make_unique<CUgraphNode_st>(*node);
    copy->graph = &to;
    if (copy->child != nullptr) {
      auto* child = new CUgraph_st;
      copy_graph(*node->child, *child, own_node);
      copy->child = child;
    }
    for (CUgraphNode& before : copy->after) before = own_node.at(before);
    own_node[node] = copy.get();
    to.nodes.push_back(std::move(copy));
  }
}

void set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS& parameters) {
  node->kernel = parameters;
  const CUfunction function =
      parameters.func == nullptr ? reinterpret_cast<CUfunction>(parameters.kern) : parameters.func;
  node->arguments = kernel_arguments(function, parameters.kernelParams, parameters.extra);
  node->argument_pointers.clear();
  node->kernel.extra = nullptr;
}

CUDA_KERNEL_NODE_PARAMS widened(const CUDA_KERNEL_NODE_PARAMS_v1& p) {
  return {p.func,
          p.gridDimX,
          p.gridDimY,
          p.gridDimZ,
          p.blockDimX,
          p.blockDimY,
          p.blockDimZ,
          p.sharedMemBytes,
          p.kernelParams,
          p.extra,
          nullptr,
          nullptr};
}

}  // namespace standin

using namespace standin;

STANDIN_API cuGraphCreate(CUgraph* out, unsigned int) {
  STANDIN_ENTRY(cuGraphCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  *out = new CUgraph_st;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphDestroy(CUgraph graph) {
  STANDIN_ENTRY(cuGraphDestroy);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  forget_nodes(*graph);
  delete graph;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphClone(CUgraph* out, CUgraph graph) {
  STANDIN_ENTRY(cuGraphClone);
  std::map<CUgraphNode, CUgraphNode> ignored;
  *out = new CUgraph_st;
  copy_graph(*graph, **out, ignored);
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphDestroyNode(CUgraphNode node) {
  STANDIN_ENTRY(cuGraphDestroyNode);
  auto& nodes = node->graph->nodes;
  for (const auto& each : nodes) std::erase(each->after, node);
  std::erase_if(nodes, [&](const auto& each) { return each.get() == node; });
  return CUDA_SUCCESS;
}

using Nodes = const CUgraphNode*;

STANDIN_API cuGraphAddKernelNode_v2(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  STANDIN_ENTRY(cuGraphAddKernelNode_v2);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_KERNEL, after, count);
  set_kernel(*out, *parameters);
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddKernelNode(CUgraphNode* out,
                                 CUgraph graph,
                                 Nodes after,
                                 size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  STANDIN_ENTRY(cuGraphAddKernelNode);
  const CUDA_KERNEL_NODE_PARAMS wide = widened(*parameters);
  return cuGraphAddKernelNode_v2(out, graph, after, count, &wide);
}

STANDIN_API cuGraphAddMemcpyNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, const CUDA_MEMCPY3D* copy, CUcontext) {
  STANDIN_ENTRY(cuGraphAddMemcpyNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_MEMCPY, after, count);
  (*out)->copy = *copy;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddMemsetNode(CUgraphNode* out,
                                 CUgraph graph,
                                 Nodes after,
                                 size_t count,
                                 const CUDA_MEMSET_NODE_PARAMS* fill,
                                 CUcontext) {
  STANDIN_ENTRY(cuGraphAddMemsetNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_MEMSET, after, count);
  (*out)->fill = *fill;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddHostNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, const CUDA_HOST_NODE_PARAMS* host) {
  STANDIN_ENTRY(cuGraphAddHostNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_HOST, after, count);
  (*out)->host = *host;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddChildGraphNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUgraph child) {
  STANDIN_ENTRY(cuGraphAddChildGraphNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_GRAPH, after, count);
  std::map<CUgraphNode, CUgraphNode> ignored;
  (*out)->child = new CUgraph_st;
  copy_graph(*child, *(*out)->child, ignored);
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, Nodes after, size_t count) {
  STANDIN_ENTRY(cuGraphAddEmptyNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_EMPTY, after, count);
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddEventRecordNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUevent event) {
  STANDIN_ENTRY(cuGraphAddEventRecordNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, after, count);
  (*out)->event = event;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddEventWaitNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUevent event) {
  STANDIN_ENTRY(cuGraphAddEventWaitNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, after, count);
  (*out)->event = event;
  return CUDA_SUCCESS;
}

// The address is fixed now; the memory behind it is taken when the graph runs.
STANDIN_API cuGraphAddMemAllocNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  STANDIN_ENTRY(cuGraphAddMemAllocNode);
  if (parameters->bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  constexpr std::uint64_t granularity = 2ULL << 20;
  const std::uint64_t size = (parameters->bytesize + granularity - 1) / granularity * granularity;
  if (const CUresult status = reserve_address(&parameters->dptr, size); status != CUDA_SUCCESS) return status;
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, after, count);
  (*out)->alloc = *parameters;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddMemFreeNode(
    CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUdeviceptr pointer) {
  STANDIN_ENTRY(cuGraphAddMemFreeNode);
  *out = new_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, after, count);
  (*out)->freed = pointer;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphAddNode(CUgraphNode* out, CUgraph graph, Nodes after, size_t count, CUgraphNodeParams* p) {
  STANDIN_ENTRY(cuGraphAddNode);
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return cuGraphAddKernelNode_v2(out, graph, after, count, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return cuGraphAddMemcpyNode(out, graph, after, count, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return cuGraphAddMemsetNode(out, graph, after, count, &p->memset, nullptr);
    case CU_GRAPH_NODE_TYPE_HOST:
      return cuGraphAddHostNode(out, graph, after, count, &p->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return cuGraphAddChildGraphNode(out, graph, after, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return cuGraphAddEmptyNode(out, graph, after, count);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return cuGraphAddEventWaitNode(out, graph, after, count, p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return cuGraphAddEventRecordNode(out, graph, after, count, p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return cuGraphAddMemAllocNode(out, graph, after, count, &p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return cuGraphAddMemFreeNode(out, graph, after, count, p->free.dptr);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

STANDIN_API cuGraphAddNode_v2(CUgraphNode* out,
                              CUgraph graph,
                              Nodes after,
                              const CUgraphEdgeData*,
                              size_t count,
                              CUgraphNodeParams* parameters) {
  STANDIN_ENTRY(cuGraphAddNode_v2);
  return cuGraphAddNode(out, graph, after, count, parameters);
}

STANDIN_API cuGraphAddDependencies(CUgraph, Nodes from, Nodes to, size_t count) {
  STANDIN_ENTRY(cuGraphAddDependencies);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::find(to[i]->after.begin(), to[i]->after.end(), from[i]) != to[i]->after.end())
      return CUDA_ERROR_INVALID_VALUE;  // As the real driver: an edge is added once.
    to[i]->after.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  STANDIN_ENTRY(cuGraphNodeGetDependentNodes);
  std::vector<CUgraphNode> waiting;
  for (const auto& each : node->graph->nodes)
    if (std::find(each->after.begin(), each->after.end(), node) != each->after.end())
      waiting.push_back(each.get());
  if (out != nullptr) std::copy_n(waiting.begin(), std::min(*count, waiting.size()), out);
  *count = waiting.size();
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphGetNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  STANDIN_ENTRY(cuGraphGetNodes);
  const std::size_t room = *count;
  *count = graph->nodes.size();
  for (std::size_t i = 0; out != nullptr && i < std::min(room, graph->nodes.size()); ++i)
    out[i] = graph->nodes[i].get();
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphGetRootNodes(CUgraph graph, CUgraphNode* out, size_t* count) {
  STANDIN_ENTRY(cuGraphGetRootNodes);
  std::vector<CUgraphNode> roots;
  for (const auto& node : graph->nodes)
    if (node->after.empty()) roots.push_back(node.get());
  if (out != nullptr) std::copy_n(roots.begin(), std::min(*count, roots.size()), out);
  *count = roots.size();
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  STANDIN_ENTRY(cuGraphNodeGetType);
  *type = node->type;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  STANDIN_ENTRY(cuGraphKernelNodeGetParams_v2);
  node->argument_pointers.clear();
  for (std::uint64_t& value : node->arguments) node->argument_pointers.push_back(&value);
  *out = node->kernel;
  out->kernelParams = node->argument_pointers.data();
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  STANDIN_ENTRY(cuGraphKernelNodeGetParams);
  CUDA_KERNEL_NODE_PARAMS p{};
  cuGraphKernelNodeGetParams_v2(node, &p);
  *out = {p.func,
          p.gridDimX,
          p.gridDimY,
          p.gridDimZ,
          p.blockDimX,
          p.blockDimY,
          p.blockDimZ,
          p.sharedMemBytes,
          p.kernelParams,
          p.extra};
  return CUDA_SUCCESS;
}

// Reading and writing what one node holds, one line each.
#define STANDIN_NODE_GET(name, type, field)       \
  STANDIN_API name(CUgraphNode node, type* out) { \
    STANDIN_ENTRY(name);                          \
    *out = node->field;                           \
    return CUDA_SUCCESS;                          \
  }
#define STANDIN_NODE_SET(name, type, action)       \
  STANDIN_API name(CUgraphNode node, type value) { \
    STANDIN_ENTRY(name);                           \
    action;                                        \
    return CUDA_SUCCESS;                           \
  }
STANDIN_NODE_GET(cuGraphMemcpyNodeGetParams, CUDA_MEMCPY3D, copy)
STANDIN_NODE_GET(cuGraphMemsetNodeGetParams, CUDA_MEMSET_NODE_PARAMS, fill)
STANDIN_NODE_GET(cuGraphHostNodeGetParams, CUDA_HOST_NODE_PARAMS, host)
STANDIN_NODE_GET(cuGraphMemAllocNodeGetParams, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)
STANDIN_NODE_GET(cuGraphMemFreeNodeGetParams, CUdeviceptr, freed)
STANDIN_NODE_GET(cuGraphChildGraphNodeGetGraph, CUgraph, child)
STANDIN_NODE_GET(cuGraphEventRecordNodeGetEvent, CUevent, event)
STANDIN_NODE_GET(cuGraphEventWaitNodeGetEvent, CUevent, event)
STANDIN_NODE_SET(cuGraphKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS*, set_kernel(node, *value))
STANDIN_NODE_SET(cuGraphKernelNodeSetParams,
                 const CUDA_KERNEL_NODE_PARAMS_v1*,
                 set_kernel(node, widened(*value)))
STANDIN_NODE_SET(cuGraphMemcpyNodeSetParams, const CUDA_MEMCPY3D*, node->copy = *value)
STANDIN_NODE_SET(cuGraphMemsetNodeSetParams, const CUDA_MEMSET_NODE_PARAMS*, node->fill = *value)
STANDIN_NODE_SET(cuGraphHostNodeSetParams, const CUDA_HOST_NODE_PARAMS*, node->host = *value)
STANDIN_NODE_SET(cuGraphEventRecordNodeSetEvent, CUevent, node->event = value)
STANDIN_NODE_SET(cuGraphEventWaitNodeSetEvent, CUevent, node->event = value)
