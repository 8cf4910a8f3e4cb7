// SPDX-License-Identifier: Apache-2.0
// Kernel launches by every path, and host functions in streams.
#include <algorithm>
#include <cstring>

#include "driver.hpp"

namespace standin {
namespace {

unsigned argument_count(KernelKind kind) {
  switch (kind) {
    case KernelKind::kBusy:
      return 0;
    case KernelKind::kBusyArgument:
      return 1;
    case KernelKind::kFill:          // pointer, bytes, value
    case KernelKind::kCopy:          // to, from, bytes
    case KernelKind::kCanaryWrite:   // pointer, bytes, seed
    case KernelKind::kCountNonzero:  // pointer, bytes, result
    case KernelKind::kAdd:           // pointer, bytes, addend to each 32-bit word
      return 3;
    case KernelKind::kCanaryCheck:  // pointer, bytes, seed, result
      return 4;
  }
  return 0;
}

std::uint64_t canary(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 27);
}

void run_kernel(KernelKind kind, const std::vector<std::uint64_t>& a) {
  auto* words = reinterpret_cast<std::uint64_t*>(a[0]);
  const std::uint64_t count = a[1] / 8;
  switch (kind) {
    case KernelKind::kFill:
      std::memset(words, static_cast<int>(a[2]), a[1]);
      break;
    case KernelKind::kCopy:
      std::memmove(words, reinterpret_cast<const void*>(a[1]), a[2]);
      break;
    case KernelKind::kCanaryWrite:
      for (std::uint64_t i = 0; i < count; ++i) words[i] = canary(a[2], i);
      break;
    case KernelKind::kCanaryCheck: {
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < count; ++i) wrong += words[i] != canary(a[2], i) ? 1 : 0;
      *reinterpret_cast<std::uint64_t*>(a[3]) = wrong;
      break;
    }
    case KernelKind::kCountNonzero: {
      std::uint64_t nonzero = 0;
      for (std::uint64_t i = 0; i < count; ++i) nonzero += words[i] != 0 ? 1 : 0;
      *reinterpret_cast<std::uint64_t*>(a[2]) = nonzero;
      break;
    }
    case KernelKind::kAdd: {
      auto* small = reinterpret_cast<std::uint32_t*>(words);
      for (std::uint64_t i = 0; i < a[1] / 4; ++i) small[i] += static_cast<std::uint32_t>(a[2]);
      break;
    }
    case KernelKind::kBusy:
    case KernelKind::kBusyArgument:
      break;
  }
}

}  // namespace

std::vector<std::uint64_t> kernel_arguments(CUfunction function, void** parameters, void** extra) {
  std::vector<std::uint64_t> values(argument_count(function->kind));
  if (values.empty()) return values;
  if (parameters != nullptr) {
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], 8);
    return values;
  }
  for (std::size_t i = 0; extra != nullptr && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      std::memcpy(values.data(), extra[i + 1], 8 * values.size());
  return values;
}

Work kernel_work(CUfunction function, const std::vector<std::uint64_t>& arguments) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.length_ns = function->length_ns;
  if (function->kind == KernelKind::kBusy) return work;
  if (function->kind == KernelKind::kBusyArgument) {
    work.length_ns = arguments[0];
    return work;
  }
  const std::uint64_t bytes = function->kind == KernelKind::kCopy ? arguments[2] : arguments[1];
  work.length_ns =
      2'000 + bytes * 1'000 / std::max<std::uint64_t>(1, driver().config().device_copy_bytes_per_us);
  work.effect = [kind = function->kind, arguments] { run_kernel(kind, arguments); };
  return work;
}

}  // namespace standin

using namespace standin;

namespace {

struct Shape {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
};

CUresult launch(CUfunction function, const Shape& shape, CUstream handle, void** parameters, void** extra) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0 || shape.block_x == 0 ||
      shape.block_y == 0 || shape.block_z == 0)
    return CUDA_ERROR_INVALID_VALUE;
  Driver& all = driver();
  spin_for(all.config().launch_cost_ns);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  wait_for_room(stream);
  const Guard guard(all.mutex);
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  if (!stream->capture) {
    schedule(stream, kernel_work(function, kernel_arguments(function, parameters, extra)));
    return CUDA_SUCCESS;
  }
  const CUgraphNode node = capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL);
  node->kernel = {function,
                  shape.grid_x,
                  shape.grid_y,
                  shape.grid_z,
                  shape.block_x,
                  shape.block_y,
                  shape.block_z,
                  shape.shared_bytes,
                  nullptr,
                  nullptr,
                  nullptr,
                  nullptr};
  node->arguments = kernel_arguments(function, parameters, extra);
  return CUDA_SUCCESS;
}

CUresult run_on_host(CUstream handle, const CUDA_HOST_NODE_PARAMS& host) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult status = capture_state(stream); status != CUDA_SUCCESS) return status;
  if (stream->capture) {
    capture_node(stream, CU_GRAPH_NODE_TYPE_HOST)->host = host;
    return CUDA_SUCCESS;
  }
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.effect = [host] { host.fn(host.userData); };
  work.runs_host_code = true;
  schedule(stream, work);
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API cuLaunchKernel(CUfunction function,
                           unsigned int gx,
                           unsigned int gy,
                           unsigned int gz,
                           unsigned int bx,
                           unsigned int by,
                           unsigned int bz,
                           unsigned int shared,
                           CUstream stream,
                           void** parameters,
                           void** extra) {
  STANDIN_ENTRY(cuLaunchKernel);
  return launch(function, {gx, gy, gz, bx, by, bz, shared}, stream, parameters, extra);
}

STANDIN_API cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction function, void** parameters, void** extra) {
  STANDIN_ENTRY(cuLaunchKernelEx);
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch(
      function,
      {c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes},
      c->hStream,
      parameters,
      extra);
}

STANDIN_API cuLaunchCooperativeKernel(CUfunction function,
                                      unsigned int gx,
                                      unsigned int gy,
                                      unsigned int gz,
                                      unsigned int bx,
                                      unsigned int by,
                                      unsigned int bz,
                                      unsigned int shared,
                                      CUstream stream,
                                      void** parameters) {
  STANDIN_ENTRY(cuLaunchCooperativeKernel);
  return launch(function, {gx, gy, gz, bx, by, bz, shared}, stream, parameters, nullptr);
}

STANDIN_API cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* list, unsigned int count, unsigned int) {
  STANDIN_ENTRY(cuLaunchCooperativeKernelMultiDevice);
  for (unsigned i = 0; i < count; ++i) {
    const CUDA_LAUNCH_PARAMS& p = list[i];
    const CUresult status =
        launch(p.function,
               {p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ, p.sharedMemBytes},
               p.hStream,
               p.kernelParams,
               nullptr);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

STANDIN_API cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
  STANDIN_ENTRY(cuLaunchGridAsync);
  return launch(function,
                {static_cast<unsigned>(width), static_cast<unsigned>(height), 1, 1, 1, 1, 0},
                stream,
                nullptr,
                nullptr);
}

STANDIN_API cuLaunchGrid(CUfunction function, int width, int height) {
  STANDIN_ENTRY(cuLaunchGrid);
  return cuLaunchGridAsync(function, width, height, nullptr);
}

STANDIN_API cuLaunch(CUfunction function) {
  STANDIN_ENTRY(cuLaunch);
  return cuLaunchGridAsync(function, 1, 1, nullptr);
}

STANDIN_API cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  STANDIN_ENTRY(cuLaunchHostFunc);
  return run_on_host(stream, {function, data});
}

STANDIN_API cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data, unsigned int) {
  STANDIN_ENTRY(cuStreamAddCallback);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  const Guard guard(driver().mutex);
  const CUstream stream = resolve(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stream->capture) return refuse_sync(stream);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  work.effect = [callback, handle, data] { callback(handle, CUDA_SUCCESS, data); };
  work.runs_host_code = true;
  schedule(stream, work);
  return CUDA_SUCCESS;
}
