// SPDX-License-Identifier: Apache-2.0
// Graphs and stream capture: work that is recorded now and runs later. Launches of a graph are charged and
// measured as one; memory of its allocation nodes is charged from its first launch until it is destroyed.
#include <type_traits>

#include "guard/cuda/launch.hpp"

namespace tranche::guard::cuda {

std::atomic<std::uint32_t> captures_active;  // NOLINT

namespace {

std::atomic<std::uint64_t> captured_bytes;  // NOLINT: of the captures under way; goes to the graph that ends.

void add_graph_bytes(void* graph, std::uint64_t bytes) {
  if (bytes == 0 || graph == nullptr) return;
  const bool known = object_table.update(key_of(graph), [&](TableEntry& entry) { entry.bytes += bytes; });
  if (!known) object_table.insert({key_of(graph), bytes, current_device(), kGraph, 1, 0});
}

void instantiated(void* exec, void* graph) {
  TableEntry copy;
  if (object_table.update(key_of(graph), [&](TableEntry& entry) { copy = entry; }) && copy.kind == kGraph)
    object_table.insert({key_of(exec), copy.bytes, copy.device, kGraphExec, 0, 0});
}

// The first launch of a graph makes the driver allocate for it.
bool charge_graph(void* exec) {
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  object_table.update(key_of(exec), [&](TableEntry& entry) {
    if (entry.kind != kGraphExec || entry.references != 0) return;
    entry.references = 1;
    bytes = entry.bytes;
    device = entry.device;
  });
  if (bytes == 0) return true;
  const VramAnswer answer = reserve(device, bytes);
  if (answer.granted) return true;
  log_refusal("cuGraphLaunch", device, bytes, answer);
  object_table.update(key_of(exec), [](TableEntry& entry) { entry.references = 0; });
  return false;
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

void note_captured_bytes(std::uint64_t bytes) {
  captured_bytes.fetch_add(bytes);
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

#define GUARD_END(name)                                                          \
  GUARD_EXPORT Result name(Stream stream, void** graph) {                        \
    const bool capturing = is_capturing(stream, #name[18] != 0);                 \
    const Result outcome = REAL(name)(stream, graph);                            \
    if (capturing && captures_active.load() > 0) captures_active.fetch_sub(1);   \
    const std::uint64_t bytes = captured_bytes.exchange(0);                      \
    if (outcome == kSuccess && graph != nullptr) add_graph_bytes(*graph, bytes); \
    return outcome;                                                              \
  }
GUARD_END(cuStreamEndCapture)
GUARD_END(cuStreamEndCapture_ptsz)
#undef GUARD_END

GUARD_EXPORT Result cuGraphAddMemAllocNode(
    void** node, void* graph, const void* needs, std::size_t count, AllocNode* allocation) {
  const Result outcome = REAL(cuGraphAddMemAllocNode)(node, graph, needs, count, allocation);
  if (outcome == kSuccess && allocation != nullptr) add_graph_bytes(graph, allocation->bytes);
  return outcome;
}
GUARD_EXPORT Result
cuGraphAddNode(void** node, void* graph, const void* needs, std::size_t count, NodeParameters* parameters) {
  const Result outcome = REAL(cuGraphAddNode)(node, graph, needs, count, parameters);
  if (outcome == kSuccess && parameters != nullptr && parameters->type == kGraphNodeMemAlloc)
    add_graph_bytes(graph, parameters->alloc.bytes);
  return outcome;
}
GUARD_EXPORT Result cuGraphAddNode_v2(void** node,
                                      void* graph,
                                      const void* needs,
                                      const void* data,
                                      std::size_t count,
                                      NodeParameters* parameters) {
  const Result outcome = REAL(cuGraphAddNode_v2)(node, graph, needs, data, count, parameters);
  if (outcome == kSuccess && parameters != nullptr && parameters->type == kGraphNodeMemAlloc)
    add_graph_bytes(graph, parameters->alloc.bytes);
  return outcome;
}

#define GUARD_INSTANTIATE(name, parameters, arguments)   \
  GUARD_EXPORT Result name parameters {                  \
    const Result outcome = REAL(name) arguments;         \
    if (outcome == kSuccess) instantiated(*exec, graph); \
    return outcome;                                      \
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
  if (!charge_graph(exec)) return kOutOfMemory;
  return launch(
      kernel_key(exec, 3, 3), stream, StreamKind::kLegacy, [&] { return REAL(cuGraphLaunch)(exec, stream); });
}
GUARD_EXPORT Result cuGraphLaunch_ptsz(void* exec, Stream stream) {
  if (!charge_graph(exec)) return kOutOfMemory;
  return launch(kernel_key(exec, 3, 3), stream, StreamKind::kPerThread, [&] {
    return REAL(cuGraphLaunch_ptsz)(exec, stream);
  });
}

GUARD_EXPORT Result cuGraphExecDestroy(void* exec) {
  const Result outcome = REAL(cuGraphExecDestroy)(exec);
  TableEntry entry;
  if (outcome == kSuccess && object_table.remove(key_of(exec), entry) && entry.references != 0)
    release(entry.device, entry.bytes);
  return outcome;
}
GUARD_EXPORT Result cuGraphDestroy(void* graph) {
  const Result outcome = REAL(cuGraphDestroy)(graph);
  TableEntry entry;
  if (outcome == kSuccess) object_table.remove(key_of(graph), entry);
  return outcome;
}
// Unused graph memory goes back; what graphs still hold stays charged with them.
GUARD_EXPORT Result cuDeviceGraphMemTrim(Device device) {
  return REAL(cuDeviceGraphMemTrim)(device);
}
