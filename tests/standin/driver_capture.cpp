// SPDX-License-Identifier: Apache-2.0
// Stream capture: what is recorded instead of run, and which calls break it.
#include <algorithm>

#include "driver.hpp"

namespace standin {
namespace {
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}  // namespace

// The rule of the API: a thread in relaxed mode may do anything; in thread-local mode its own strict captures
// forbid unsafe calls; in global mode (the default) global captures of other threads do too.
CUresult refuse_unsafe_call() {
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (all.captures.empty() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  bool refused = false;
  for (const auto& capture : all.captures) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool own = capture->thread == std::this_thread::get_id();
    const bool others =
        thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !others) continue;
    capture->invalidated = true;
    refused = true;
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult refuse_sync(CUstream stream) {
  if (stream->capture) {
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  return refuse_unsafe_call();
}

// Work on the legacy stream would have to wait for every blocking stream, captured ones included.
CUresult capture_state(CUstream stream) {
  if (stream->capture)
    return stream->capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (stream != stream->context->legacy) return CUDA_SUCCESS;
  bool refused = false;
  for (const auto& capture : driver().captures) {
    for (const CUstream each : capture->streams) {
      if (each->context != stream->context || (each->flags & CU_STREAM_NON_BLOCKING) != 0) continue;
      capture->invalidated = true;
      refused = true;
    }
  }
  return refused ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUgraphNode capture_node(CUstream stream, CUgraphNodeType type) {
  const CUgraphNode node =
      new_node(stream->capture->graph, type, stream->capture_tail.data(), stream->capture_tail.size());
  stream->capture_tail = {node};
  return node;
}

}  // namespace standin

using namespace standin;

namespace {

CUresult begin(
    CUstream handle, CUgraph graph, const CUgraphNode* after, std::size_t count, CUstreamCaptureMode mode) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  Driver& all = driver();
  const Guard guard(all.mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->graph = graph == nullptr ? new CUgraph_st : graph;
  capture->mode = mode;
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  capture->id = all.next_id++;
  capture->streams.insert(stream);
  stream->capture = capture;
  stream->capture_tail.assign(after, after + count);
  all.captures.insert(capture);
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  STANDIN_ENTRY(cuStreamBeginCapture_v2);
  return begin(stream, nullptr, nullptr, 0, mode);
}

STANDIN_API cuStreamBeginCapture(CUstream stream) {
  STANDIN_ENTRY(cuStreamBeginCapture);
  return begin(stream, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

STANDIN_API cuStreamBeginCaptureToGraph(CUstream stream,
                                        CUgraph graph,
                                        const CUgraphNode* after,
                                        const CUgraphEdgeData*,
                                        size_t count,
                                        CUstreamCaptureMode mode) {
  STANDIN_ENTRY(cuStreamBeginCaptureToGraph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return begin(stream, graph, after, count, mode);
}

STANDIN_API cuStreamEndCapture(CUstream handle, CUgraph* out) {
  STANDIN_ENTRY(cuStreamEndCapture);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  Driver& all = driver();
  const Guard guard(all.mutex);
  const CUstream stream = resolve(handle);
  if (out != nullptr) *out = nullptr;
  if (stream == nullptr || !stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool joined = true;
  for (const CUstream each : capture->streams) {
    for (const CUgraphNode tail : each->capture_tail) {
      const bool seen = std::find(stream->capture_tail.begin(), stream->capture_tail.end(), tail) !=
                        stream->capture_tail.end();
      const bool followed =
          std::any_of(capture->graph->nodes.begin(), capture->graph->nodes.end(), [&](auto& node) {
            return std::find(node->after.begin(), node->after.end(), tail) != node->after.end();
          });
      joined = joined && (seen || followed);
    }
    each->capture.reset();
  }
  for (const CUstream each : capture->streams) each->capture_tail.clear();
  all.captures.erase(capture);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (out != nullptr) *out = capture->graph;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  STANDIN_ENTRY(cuStreamIsCapturing);
  if (const CUresult not_ready = ready(); not_ready != CUDA_SUCCESS) return not_ready;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy && !driver().captures.empty())
    for (const auto& capture : driver().captures)
      for (const CUstream each : capture->streams)
        if (each->context == stream->context && (each->flags & CU_STREAM_NON_BLOCKING) == 0)
          return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = !stream->capture               ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetCaptureInfo_v2(CUstream handle,
                                      CUstreamCaptureStatus* status,
                                      cuuint64_t* id,
                                      CUgraph* graph,
                                      const CUgraphNode** after,
                                      size_t* count) {
  STANDIN_ENTRY(cuStreamGetCaptureInfo_v2);
  if (const CUresult wrong = cuStreamIsCapturing(handle, status); wrong != CUDA_SUCCESS) return wrong;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph;
  if (after != nullptr) *after = stream->capture_tail.data();
  if (count != nullptr) *count = stream->capture_tail.size();
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  STANDIN_ENTRY(cuStreamGetCaptureInfo);
  return cuStreamGetCaptureInfo_v2(stream, status, id, nullptr, nullptr, nullptr);
}

STANDIN_API cuStreamGetCaptureInfo_v3(CUstream stream,
                                      CUstreamCaptureStatus* status,
                                      cuuint64_t* id,
                                      CUgraph* graph,
                                      const CUgraphNode** after,
                                      const CUgraphEdgeData** edges,
                                      size_t* count) {
  STANDIN_ENTRY(cuStreamGetCaptureInfo_v3);
  if (edges != nullptr) *edges = nullptr;
  return cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
}

STANDIN_API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  STANDIN_ENTRY(cuThreadExchangeStreamCaptureMode);
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}
