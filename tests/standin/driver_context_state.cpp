// SPDX-License-Identifier: Apache-2.0
// What a context is asked about, and waiting for all of it.
#include "driver.hpp"

using namespace standin;

STANDIN_API cuCtxGetFlags(unsigned int* flags) {
  STANDIN_ENTRY(cuCtxGetFlags);
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *flags = current_context()->flags;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxSetFlags(unsigned int flags) {
  STANDIN_ENTRY(cuCtxSetFlags);
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  current_context()->flags = flags;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetId(CUcontext context, unsigned long long* id) {
  STANDIN_ENTRY(cuCtxGetId);
  if (context == nullptr) context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  STANDIN_ENTRY(cuCtxGetApiVersion);
  *version = 3020;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetLimit(size_t* value, CUlimit limit) {
  STANDIN_ENTRY(cuCtxGetLimit);
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (limit > 15) return CUDA_ERROR_INVALID_VALUE;
  *value = current_context()->limits[limit];
  return CUDA_SUCCESS;
}

// Stack and heap live in VRAM: setting a larger heap takes the difference from the device at once.
STANDIN_API cuCtxSetLimit(CUlimit limit, size_t value) {
  STANDIN_ENTRY(cuCtxSetLimit);
  const CUcontext context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (limit > 15) return CUDA_ERROR_INVALID_VALUE;
  Driver& all = driver();
  const Guard guard(all.mutex);
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && value > context->limits[limit]) {
    Allocation heap;
    if (const CUresult status =
            allocate(context, value - context->limits[limit], MemoryKind::kExternal, heap);
        status != CUDA_SUCCESS)
      return status;
  }
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  STANDIN_ENTRY(cuCtxGetStreamPriorityRange);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxSynchronize(void) {
  STANDIN_ENTRY(cuCtxSynchronize);
  const CUcontext context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult status = refuse_unsafe_call(); status != CUDA_SUCCESS) return status;
  std::uint64_t until = 0;
  {
    const Guard guard(driver().mutex);
    until = context->any_tail_ns;
  }
  wait_until_known(until);
  trim_pools();
  return CUDA_SUCCESS;
}

STANDIN_API cuCtxSynchronize_v2(CUcontext context) {
  STANDIN_ENTRY(cuCtxSynchronize_v2);
  if (context == nullptr) return cuCtxSynchronize();
  std::uint64_t until = 0;
  {
    const Guard guard(driver().mutex);
    until = context->any_tail_ns;
  }
  wait_until_known(until);
  return CUDA_SUCCESS;
}

STANDIN_API cuGetErrorName(CUresult error, const char** text) {
  STANDIN_ENTRY(cuGetErrorName);
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  static const std::map<int, const char*> names = {
      {CUDA_SUCCESS, "CUDA_SUCCESS"},
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
      {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
      {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
      {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
      {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
      {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
      {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {CUDA_ERROR_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT"}};
  const auto found = names.find(error);
  *text = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
  return CUDA_SUCCESS;
}

STANDIN_API cuGetErrorString(CUresult error, const char** text) {
  STANDIN_ENTRY(cuGetErrorString);
  return cuGetErrorName(error, text);
}
