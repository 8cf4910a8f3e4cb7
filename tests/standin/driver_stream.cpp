// SPDX-License-Identifier: Apache-2.0
// Streams and events of the stand-in driver. Learning that work is done takes the configured lag, and
// recording and asking cost the caller what they would.
#include <algorithm>

#include "driver.hpp"

using namespace standin;

STANDIN_API cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  STANDIN_ENTRY(cuStreamCreateWithPriority);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const Guard guard(driver().mutex);
  auto stream = std::make_unique<CUstream_st>();
  stream->context = current_context();
  stream->flags = flags;
  stream->priority = priority;
  stream->id = driver().next_id++;
  current_context()->streams.insert(stream.get());
  *out = stream.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamCreate(CUstream* out, unsigned int flags) {
  STANDIN_ENTRY(cuStreamCreate);
  return cuStreamCreateWithPriority(out, flags, 0);
}

STANDIN_API cuStreamDestroy_v2(CUstream stream) {
  STANDIN_ENTRY(cuStreamDestroy_v2);
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
    return CUDA_ERROR_INVALID_HANDLE;
  const Guard guard(driver().mutex);
  if (stream->context->streams.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete stream;  // Its queued work still runs.
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamDestroy(CUstream stream) {
  STANDIN_ENTRY(cuStreamDestroy);
  return cuStreamDestroy_v2(stream);
}

STANDIN_API cuStreamSynchronize(CUstream handle) {
  STANDIN_ENTRY(cuStreamSynchronize);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  std::uint64_t until = 0;
  {
    const Guard guard(driver().mutex);
    const CUstream stream = resolve(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult status = refuse_sync(stream); status != CUDA_SUCCESS) return status;
    until = stream_front(stream);
  }
  wait_until_known(until);
  trim_pools();
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamQuery(CUstream handle) {
  STANDIN_ENTRY(cuStreamQuery);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  spin_for(driver().config().event_query_cost_ns);
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult status = refuse_sync(stream); status != CUDA_SUCCESS) return status;
  return is_known(stream_front(stream)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

STANDIN_API cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  STANDIN_ENTRY(cuStreamGetFlags);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetPriority(CUstream handle, int* priority) {
  STANDIN_ENTRY(cuStreamGetPriority);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || priority == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetId(CUstream handle, unsigned long long* id) {
  STANDIN_ENTRY(cuStreamGetId);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || id == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = stream->id;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetCtx(CUstream handle, CUcontext* context) {
  STANDIN_ENTRY(cuStreamGetCtx);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stream->context;
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  STANDIN_ENTRY(cuStreamGetCtx_v2);
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, context);
}

STANDIN_API cuStreamGetDevice(CUstream handle, CUdevice* device) {
  STANDIN_ENTRY(cuStreamGetDevice);
  const CUstream stream = resolve(handle);
  if (stream == nullptr || device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = static_cast<int>(stream->context->device);
  return CUDA_SUCCESS;
}

STANDIN_API cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned int) {
  STANDIN_ENTRY(cuStreamAttachMemAsync);
  return ready();
}

STANDIN_API cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int) {
  STANDIN_ENTRY(cuStreamWaitEvent);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event->capture && driver().captures.contains(event->capture)) {
    if (stream->capture && stream->capture != event->capture) {
      stream->capture->invalidated = event->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!stream->capture) {  // The wait pulls this stream into the capture.
      stream->capture = event->capture;
      stream->capture->streams.insert(stream);
      stream->capture_tail.clear();
    }
    for (const CUgraphNode node : event->capture_tail)
      if (std::find(stream->capture_tail.begin(), stream->capture_tail.end(), node) ==
          stream->capture_tail.end())
        stream->capture_tail.push_back(node);
    return CUDA_SUCCESS;
  }
  if (stream->capture) {
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (event->recorded) stream->tail_ns = std::max(stream->tail_ns, event->done_ns);
  return CUDA_SUCCESS;
}

STANDIN_API cuEventCreate(CUevent* out, unsigned int flags) {
  STANDIN_ENTRY(cuEventCreate);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto event = std::make_unique<CUevent_st>();
  event->context = current_context();
  event->flags = flags;
  *out = event.release();
  return CUDA_SUCCESS;
}

STANDIN_API cuEventDestroy_v2(CUevent event) {
  STANDIN_ENTRY(cuEventDestroy_v2);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

STANDIN_API cuEventDestroy(CUevent event) {
  STANDIN_ENTRY(cuEventDestroy);
  return cuEventDestroy_v2(event);
}

STANDIN_API cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int) {
  STANDIN_ENTRY(cuEventRecordWithFlags);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  spin_for(driver().config().event_record_cost_ns);
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  if (stream->capture) {
    event->capture = stream->capture;
    event->capture_tail = stream->capture_tail;
    event->recorded = false;
    return CUDA_SUCCESS;
  }
  event->capture.reset();
  event->capture_tail.clear();
  event->done_ns = std::max(stream_front(stream), now_ns());
  event->recorded = true;
  return CUDA_SUCCESS;
}

STANDIN_API cuEventRecord(CUevent event, CUstream handle) {
  STANDIN_ENTRY(cuEventRecord);
  return cuEventRecordWithFlags(event, handle, 0);
}

namespace {

// A captured event has no time; asking for it breaks the capture. So does asking for any event from a thread
// that a capture forbids unsafe calls.
CUresult refuse_event(CUevent event) {
  const Guard guard(driver().mutex);
  if (event->capture && driver().captures.contains(event->capture)) {
    event->capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return refuse_unsafe_call();
}

}  // namespace

STANDIN_API cuEventQuery(CUevent event) {
  STANDIN_ENTRY(cuEventQuery);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  spin_for(driver().config().event_query_cost_ns);
  if (const CUresult status = refuse_event(event); status != CUDA_SUCCESS) return status;
  return !event->recorded || is_known(event->done_ns) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

STANDIN_API cuEventSynchronize(CUevent event) {
  STANDIN_ENTRY(cuEventSynchronize);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult status = refuse_event(event); status != CUDA_SUCCESS) return status;
  if (!event->recorded) return CUDA_SUCCESS;
  wait_until_known(event->done_ns);
  trim_pools();
  return CUDA_SUCCESS;
}

STANDIN_API cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  STANDIN_ENTRY(cuEventElapsedTime_v2);
  if (from == nullptr || to == nullptr || milliseconds == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!from->recorded || !to->recorded || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!is_known(from->done_ns) || !is_known(to->done_ns)) return CUDA_ERROR_NOT_READY;
  const double difference = static_cast<double>(to->done_ns) - static_cast<double>(from->done_ns);
  *milliseconds = static_cast<float>(difference / 1e6);
  return CUDA_SUCCESS;
}

STANDIN_API cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  STANDIN_ENTRY(cuEventElapsedTime);
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
