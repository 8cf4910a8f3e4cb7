// SPDX-License-Identifier: Apache-2.0
// Graphs and stream capture: work that is recorded now and runs later. Launches of a graph are charged and
// measured as one.
#include <algorithm>
#include <type_traits>

#include "guard/cuda/graph_contents.hpp"
#include "guard/cuda/graph_memory.hpp"
#include "guard/cuda/launch.hpp"

namespace tranche::guard::cuda {

std::atomic<std::uint32_t> captures_active;  // NOLINT

namespace {

struct Needs {
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  Cleaning cleaning = kCleaningOn;
};

// Before the driver copies the graph, because nodes may be added to it.
Needs prepare(void* graph) {
  Needs needs;
  needs.bytes = graph_bytes(graph, needs.device);
  if (needs.bytes != 0) needs.cleaning = add_cleaners(graph);
  return needs;
}

void instantiated(void* exec, void* graph, const Needs& needs) {
  if (needs.bytes == 0) return;
  object_table.insert({key_of(exec), needs.bytes, needs.device, kGraphExec, 0, 0, needs.cleaning});
  keep_source(exec, graph);
}

// The other graph may take more than the one before it. Its nodes are of the same kinds, so where that had no
// memory there is nothing to look for: programs do this often, with thousands of nodes.
template <class Ask>
Result update_exec(void* exec, void* graph, Ask ask) {
  if (!object_table.update(key_of(exec), [](TableEntry&) {})) return ask();
  const Needs needs = prepare(graph);
  const Result outcome = ask();
  if (outcome != kSuccess || needs.bytes == 0) return outcome;
  object_table.update(key_of(exec), [&](TableEntry& entry) {
    entry.bytes = std::max(entry.bytes, needs.bytes);
    entry.references = 0;
  });
  follow_update(exec, graph);
  return outcome;
}

// Inside a capture a launch becomes a child of the graph that is being made, which is asked for its nodes.
template <class Ask>
Result launch_graph(void* exec, Stream stream, StreamKind kind, Ask ask) {
  GraphMemory memory;
  const bool captured = is_capturing(stream, kind == StreamKind::kPerThread);
  if (!captured && !contents_ready(exec)) return kNotSupported;
  if (!captured && !memory.reserve_for("cuGraphLaunch", exec)) return kOutOfMemory;
  const Result outcome = launch(kernel_key(exec, 3, 3), stream, kind, ask);
  memory.settle_after(outcome);
  return outcome;
}

// A driver may fetch what a graph needs before its first launch, or not: the launch reserves again.
template <class Ask>
Result upload_graph(void* exec, Ask ask) {
  GraphMemory memory;
  if (!memory.reserve_for("cuGraphUpload", exec)) return kOutOfMemory;
  const Result outcome = ask();
  memory.settle_after(kNotReady);
  return outcome;
}

}  // namespace

bool is_capturing(Stream stream, bool per_thread) {
  if (captures_active.load(std::memory_order_relaxed) == 0) return false;
  int status = 0;
  auto* ask = DRIVER(cuStreamIsCapturing, Result(Stream, int*));
  if (ask == nullptr) return true;
  // An error (such as asking about the legacy stream during a capture) is no moment to wait or record either.
  return ask(stream == nullptr && per_thread ? kPerThreadStream : stream, &status) != kSuccess || status != 0;
}

}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

#define GUARD_BEGIN(name, parameters, arguments)           \
  GUARD_EXPORT Result name parameters {                    \
    captures_active.fetch_add(1);                          \
    const Result outcome = REAL(name) arguments;           \
    if (outcome != kSuccess) captures_active.fetch_sub(1); \
    return outcome;                                        \
  }
GUARD_BEGIN(cuStreamBeginCapture, (Stream stream), (stream))
GUARD_BEGIN(cuStreamBeginCapture_ptsz, (Stream stream), (stream))
GUARD_BEGIN(cuStreamBeginCapture_v2, (Stream stream, int mode), (stream, mode))
GUARD_BEGIN(cuStreamBeginCapture_v2_ptsz, (Stream stream, int mode), (stream, mode))
GUARD_BEGIN(cuStreamBeginCaptureToGraph,
            (Stream stream, void* graph, const void* needs, const void* data, std::size_t count, int mode),
            (stream, graph, needs, data, count, mode))
GUARD_BEGIN(cuStreamBeginCaptureToGraph_ptsz,
            (Stream stream, void* graph, const void* needs, const void* data, std::size_t count, int mode),
            (stream, graph, needs, data, count, mode))
#undef GUARD_BEGIN

#define GUARD_END(name)                                                        \
  GUARD_EXPORT Result name(Stream stream, void** graph) {                      \
    const bool capturing = is_capturing(stream, #name[18] != 0);               \
    const Result outcome = REAL(name)(stream, graph);                          \
    if (capturing && captures_active.load() > 0) captures_active.fetch_sub(1); \
    return outcome;                                                            \
  }
GUARD_END(cuStreamEndCapture)
GUARD_END(cuStreamEndCapture_ptsz)
#undef GUARD_END

#define GUARD_INSTANTIATE(name, parameters, arguments)          \
  GUARD_EXPORT Result name parameters {                         \
    const Needs needs = prepare(graph);                         \
    const Result outcome = REAL(name) arguments;                \
    if (outcome == kSuccess) instantiated(*exec, graph, needs); \
    return outcome;                                             \
  }
GUARD_INSTANTIATE(cuGraphInstantiate,
                  (void** exec, void* graph, void* node, char* log, std::size_t bytes),
                  (exec, graph, node, log, bytes))
GUARD_INSTANTIATE(cuGraphInstantiate_v2,
                  (void** exec, void* graph, void* node, char* log, std::size_t bytes),
                  (exec, graph, node, log, bytes))
GUARD_INSTANTIATE(cuGraphInstantiateWithFlags,
                  (void** exec, void* graph, unsigned long long flags),
                  (exec, graph, flags))
GUARD_INSTANTIATE(cuGraphInstantiateWithParams,
                  (void** exec, void* graph, void* settings),
                  (exec, graph, settings))
GUARD_INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
                  (void** exec, void* graph, void* settings),
                  (exec, graph, settings))
#undef GUARD_INSTANTIATE

GUARD_EXPORT Result cuGraphLaunch(void* exec, Stream stream) {
  return launch_graph(exec, stream, StreamKind::kLegacy, [&] { return REAL(cuGraphLaunch)(exec, stream); });
}
GUARD_EXPORT Result cuGraphLaunch_ptsz(void* exec, Stream stream) {
  return launch_graph(
      exec, stream, StreamKind::kPerThread, [&] { return REAL(cuGraphLaunch_ptsz)(exec, stream); });
}
GUARD_EXPORT Result cuGraphUpload(void* exec, Stream stream) {
  return upload_graph(exec, [&] { return REAL(cuGraphUpload)(exec, stream); });
}
GUARD_EXPORT Result cuGraphUpload_ptsz(void* exec, Stream stream) {
  return upload_graph(exec, [&] { return REAL(cuGraphUpload_ptsz)(exec, stream); });
}

GUARD_EXPORT Result cuGraphExecUpdate(void* exec, void* graph, void** node, int* result) {
  return update_exec(exec, graph, [&] { return REAL(cuGraphExecUpdate)(exec, graph, node, result); });
}
GUARD_EXPORT Result cuGraphExecUpdate_v2(void* exec, void* graph, void* result) {
  return update_exec(exec, graph, [&] { return REAL(cuGraphExecUpdate_v2)(exec, graph, result); });
}
GUARD_EXPORT Result cuGraphExecDestroy(void* exec) {
  const Result outcome = REAL(cuGraphExecDestroy)(exec);
  TableEntry entry;
  if (outcome == kSuccess && object_table.remove(key_of(exec), entry)) {
    forget_exec(exec);
    settle_graph_memory(entry.device);
  }
  return outcome;
}
GUARD_EXPORT Result cuGraphDestroy(void* graph) {
  return may_destroy(graph) ? REAL(cuGraphDestroy)(graph) : kSuccess;
}

// Programs find our nodes when they list theirs. What they do to them has no effect.
#define GUARD_NODE(name, parameters, arguments) \
  GUARD_EXPORT Result name parameters {         \
    if (is_cleaner(node)) return kSuccess;      \
    return REAL(name) arguments;                \
  }
GUARD_NODE(cuGraphNodeSetEnabled, (void* exec, void* node, unsigned on), (exec, node, on))
GUARD_NODE(cuGraphNodeSetParams, (void* node, void* settings), (node, settings))
GUARD_NODE(cuGraphExecNodeSetParams, (void* exec, void* node, void* settings), (exec, node, settings))
GUARD_NODE(cuGraphMemsetNodeSetParams, (void* node, const void* settings), (node, settings))
GUARD_NODE(cuGraphExecMemsetNodeSetParams,
           (void* exec, void* node, const void* settings, Context context),
           (exec, node, settings, context))
GUARD_NODE(cuGraphDestroyNode, (void* node), (node))
#undef GUARD_NODE
GUARD_EXPORT Result cuDeviceGraphMemTrim(Device device) {
  const Result outcome = trim_graph_memory(device);
  settle_graph_memory(static_cast<std::uint32_t>(device));
  return outcome;
}
