// SPDX-License-Identifier: Apache-2.0
// Instantiated graphs: launching them and changing them.
#include <algorithm>

#include "driver.hpp"
#include "graph.hpp"

namespace standin {
namespace {

Work node_work(CUgraphNode node) {
  switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const CUfunction function =
          node->kernel.func == nullptr ? reinterpret_cast<CUfunction>(node->kernel.kern) : node->kernel.func;
      return kernel_work(function, node->arguments);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return copy_work(node->copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return fill_work(node->fill);
    case CU_GRAPH_NODE_TYPE_HOST: {
      Work work;
      work.type = node->type;
      work.effect = [host = node->host] { host.fn(host.userData); };
      work.runs_host_code = true;
      return work;
    }
    default:
      return {};
  }
}

// Runs the nodes of a copy in their order; each waits for those before it in the graph only.
CUresult run_graph(
    CUgraphExec exec, CUgraph graph, CUcontext context, std::uint64_t front, std::uint64_t& end) {
  std::map<CUgraphNode, std::uint64_t> ends;
  for (const auto& each : graph->nodes) {
    const CUgraphNode node = each.get();
    std::uint64_t ready_ns = front;
    for (const CUgraphNode before : node->after) ready_ns = std::max(ready_ns, ends[before]);
    std::uint64_t done = ready_ns;
    if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
      if (node->event->recorded) done = std::max(ready_ns, node->event->done_ns);
    } else if (node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
      done = std::max(ready_ns, now_ns());
      node->event->done_ns = done;
      node->event->recorded = true;
    } else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH) {
      if (const CUresult status = run_graph(exec, node->child, context, ready_ns, done);
          status != CUDA_SUCCESS)
        return status;
    } else if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      if (const CUresult status = back_allocation(node->alloc); status != CUDA_SUCCESS) return status;
      exec->addresses.insert(node->alloc.dptr);
    } else if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      free_graph_allocation(node->freed, ready_ns);
    } else if (node->enabled && node->type != CU_GRAPH_NODE_TYPE_EMPTY) {
      done = run_at(context, node_work(node), ready_ns);
    }
    ends[node] = done;
    end = std::max(end, done);
  }
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, cuuint64_t flags) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Guard guard(driver().mutex);
  auto exec = std::make_unique<CUgraphExec_st>();
  exec->graph = new CUgraph_st;
  copy_graph(*graph, *exec->graph, exec->own_node);
  exec->context = current_context();
  exec->flags = flags;
  driver().execs.insert(exec.get());
  *out = exec.release();
  return CUDA_SUCCESS;
}

// As the real driver: a graph whose memory was not freed runs again only where it was made to free it itself.
bool may_run_again(CUgraphExec exec, std::uint64_t front) {
  for (const CUdeviceptr at : exec->addresses) {
    if (!driver().allocations.contains(at)) continue;
    if ((exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) return false;
    free_graph_allocation(at, front);
  }
  return true;
}

// Null where the caller's graph, and with it the handle, is gone.
CUgraphNode own_of(CUgraphExec exec, CUgraphNode node) {
  const auto found = exec->own_node.find(node);
  return found == exec->own_node.end() ? nullptr : found->second;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  STANDIN_ENTRY(cuGraphInstantiateWithFlags);
  return instantiate(out, graph, flags);
}

STANDIN_API cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  STANDIN_ENTRY(cuGraphInstantiate_v2);
  return instantiate(out, graph, 0);
}

STANDIN_API cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  STANDIN_ENTRY(cuGraphInstantiate);
  return instantiate(out, graph, 0);
}

STANDIN_API cuGraphInstantiateWithParams(CUgraphExec* out,
                                         CUgraph graph,
                                         CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  STANDIN_ENTRY(cuGraphInstantiateWithParams);
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return instantiate(out, graph, parameters->flags);
}

STANDIN_API cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  STANDIN_ENTRY(cuGraphExecGetFlags);
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

// What it runs goes on, and memory that was not freed stays.
STANDIN_API cuGraphExecDestroy(CUgraphExec exec) {
  STANDIN_ENTRY(cuGraphExecDestroy);
  if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Guard guard(driver().mutex);
  driver().execs.erase(exec);
  delete exec->graph;
  delete exec;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphUpload(CUgraphExec exec, CUstream handle) {
  STANDIN_ENTRY(cuGraphUpload);
  return exec == nullptr || resolve(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

STANDIN_API cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  STANDIN_ENTRY(cuGraphLaunch);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (exec == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  spin_for(driver().config().launch_cost_ns);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  wait_for_room(stream);
  const Guard guard(driver().mutex);
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  if (stream->capture) {
    const CUgraphNode node = capture_node(stream, CU_GRAPH_NODE_TYPE_GRAPH);
    node->child = new CUgraph_st;
    std::map<CUgraphNode, CUgraphNode> ignored;
    copy_graph(*exec->graph, *node->child, ignored);
    return CUDA_SUCCESS;
  }
  if (!may_run_again(exec, stream_front(stream))) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t end = std::max(stream_front(stream), now_ns());
  const CUresult status = run_graph(exec, exec->graph, stream->context, stream_front(stream), end);
  for (const CUdeviceptr at : exec->addresses) {
    if (status != CUDA_SUCCESS) free_graph_allocation(at, end);  // What did not fit holds nothing.
    needed_until(at, end);
  }
  advance(stream, end);
  return status;
}

STANDIN_API cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  STANDIN_ENTRY(cuGraphExecUpdate_v2);
  const Guard guard(driver().mutex);
  auto fresh = std::make_unique<CUgraph_st>();
  std::map<CUgraphNode, CUgraphNode> own_node;
  copy_graph(*graph, *fresh, own_node);
  bool same = fresh->nodes.size() == exec->graph->nodes.size();
  for (std::size_t i = 0; same && i < fresh->nodes.size(); ++i)
    same = fresh->nodes[i]->type == exec->graph->nodes[i]->type;
  info->result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  info->errorNode = info->errorFromNode = nullptr;
  if (!same) return CUDA_ERROR_UNKNOWN;
  exec->own_node = std::move(own_node);
  delete exec->graph;
  exec->graph = fresh.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphExecUpdate(CUgraphExec exec,
                              CUgraph graph,
                              CUgraphNode* node,
                              CUgraphExecUpdateResult* result) {
  STANDIN_ENTRY(cuGraphExecUpdate);
  CUgraphExecUpdateResultInfo info{};
  const CUresult status = cuGraphExecUpdate_v2(exec, graph, &info);
  if (node != nullptr) *node = nullptr;
  if (result != nullptr) *result = info.result;
  return status;
}

// Replaces what one node of an instantiated graph does; the caller names the node of the original graph.
#define STANDIN_EXEC_SET(name, type, action)                         \
  STANDIN_API name(CUgraphExec exec, CUgraphNode node, type value) { \
    STANDIN_ENTRY(name);                                             \
    const Guard guard(driver().mutex);                               \
    const CUgraphNode own = own_of(exec, node);                      \
    if (own == nullptr) return CUDA_ERROR_INVALID_VALUE;             \
    action;                                                          \
    return CUDA_SUCCESS;                                             \
  }
STANDIN_EXEC_SET(cuGraphExecKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS*, set_kernel(own, *value))
STANDIN_EXEC_SET(cuGraphExecKernelNodeSetParams,
                 const CUDA_KERNEL_NODE_PARAMS_v1*,
                 set_kernel(own, widened(*value)))
STANDIN_EXEC_SET(cuGraphExecHostNodeSetParams, const CUDA_HOST_NODE_PARAMS*, own->host = *value)
STANDIN_EXEC_SET(cuGraphExecEventRecordNodeSetEvent, CUevent, own->event = value)
STANDIN_EXEC_SET(cuGraphExecEventWaitNodeSetEvent, CUevent, own->event = value)

// As the real driver: no other nodes can be switched.
STANDIN_API cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  STANDIN_ENTRY(cuGraphNodeSetEnabled);
  const Guard guard(driver().mutex);
  const CUgraphNode own = own_of(exec, node);
  const bool possible =
      own != nullptr && (own->type == CU_GRAPH_NODE_TYPE_KERNEL || own->type == CU_GRAPH_NODE_TYPE_MEMSET ||
                         own->type == CU_GRAPH_NODE_TYPE_MEMCPY);
  if (possible) own->enabled = enabled != 0;
  return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN_API cuGraphExecMemcpyNodeSetParams(CUgraphExec exec,
                                           CUgraphNode node,
                                           const CUDA_MEMCPY3D* copy,
                                           CUcontext) {
  STANDIN_ENTRY(cuGraphExecMemcpyNodeSetParams);
  const CUgraphNode own = own_of(exec, node);
  if (own != nullptr) own->copy = *copy;
  return own == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

STANDIN_API cuGraphExecMemsetNodeSetParams(CUgraphExec exec,
                                           CUgraphNode node,
                                           const CUDA_MEMSET_NODE_PARAMS* fill,
                                           CUcontext) {
  STANDIN_ENTRY(cuGraphExecMemsetNodeSetParams);
  const CUgraphNode own = own_of(exec, node);
  if (own != nullptr) own->fill = *fill;
  return own == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

STANDIN_API cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  STANDIN_ENTRY(cuGraphExecChildGraphNodeSetParams);
  const Guard guard(driver().mutex);
  const CUgraphNode own = own_of(exec, node);
  if (own == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::map<CUgraphNode, CUgraphNode> ignored;
  auto* fresh = new CUgraph_st;
  copy_graph(*child, *fresh, ignored);
  own->child = fresh;
  return CUDA_SUCCESS;
}

STANDIN_API cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* enabled) {
  STANDIN_ENTRY(cuGraphNodeGetEnabled);
  const CUgraphNode own = own_of(exec, node);
  if (own != nullptr) *enabled = own->enabled ? 1 : 0;
  return own == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
