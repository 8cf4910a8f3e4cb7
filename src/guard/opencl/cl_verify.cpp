// SPDX-License-Identifier: Apache-2.0
// Zeroes a range of a buffer and reads it back, for the hand-over of a device between tenants.
#include <algorithm>
#include <cstdlib>

#include "guard/nonzero.hpp"
#include "guard/opencl/cl_front.hpp"
#include "guard/tranche_guard.h"

namespace tranche::guard::opencl {
namespace {

struct Buffers {
  void* memory[2] = {std::malloc(kReadBackPiece), std::malloc(kReadBackPiece)};
  Buffers() = default;
  ~Buffers() {
    std::free(memory[0]);
    std::free(memory[1]);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
};

cl_int zero(cl_command_queue queue, cl_mem memory, size_t offset, size_t bytes) {
  const cl_uchar none = 0;  // As when memory is freed: see cl_zero.cpp.
  return ours.clEnqueueFillBuffer(queue, memory, &none, sizeof none, offset, bytes, 0, nullptr, nullptr);
}

cl_int verify(cl_command_queue queue, cl_mem memory, size_t offset, size_t bytes, std::uint64_t& nonzero) {
  const Buffers buffers;
  if (buffers.memory[0] == nullptr || buffers.memory[1] == nullptr) return CL_OUT_OF_HOST_MEMORY;
  cl_event done[2] = {};
  const size_t pieces = (bytes + kReadBackPiece - 1) / kReadBackPiece;
  const auto length = [&](size_t i) { return std::min(kReadBackPiece, bytes - i * kReadBackPiece); };
  cl_int status = CL_SUCCESS;
  for (size_t i = 0; i <= pieces && status == CL_SUCCESS; ++i) {
    if (i < pieces) {
      status = ours.clEnqueueReadBuffer(queue,
                                        memory,
                                        CL_FALSE,
                                        offset + i * kReadBackPiece,
                                        length(i),
                                        buffers.memory[i % 2],
                                        0,
                                        nullptr,
                                        &done[i % 2]);
      if (status == CL_SUCCESS) status = ours.clFlush(queue);
    }
    if (i == 0 || status != CL_SUCCESS) continue;
    cl_event& before = done[(i - 1) % 2];
    status = ours.clWaitForEvents(1, &before);
    ours.clReleaseEvent(before);
    if (status == CL_SUCCESS) nonzero += count_nonzero(buffers.memory[(i - 1) % 2], length(i - 1));
  }
  if (status != CL_SUCCESS) ours.clFinish(queue);  // Nothing may write into the buffers after they are gone.
  return status;
}

}  // namespace
}  // namespace tranche::guard::opencl

using namespace tranche::guard::opencl;  // NOLINT: this is the border.

extern "C" __attribute__((visibility("default"))) int tranche_guard_opencl_zero_and_verify(
    void* command_queue, void* memory_object, size_t offset, size_t bytes, uint64_t* nonzero_bytes) {
  if (nonzero_bytes == nullptr || bytes == 0 || ours.clEnqueueFillBuffer == nullptr) return CL_INVALID_VALUE;
  auto* queue = static_cast<cl_command_queue>(command_queue);
  auto* memory = static_cast<cl_mem>(memory_object);
  *nonzero_bytes = 0;
  const cl_int status = zero(queue, memory, offset, bytes);
  return status == CL_SUCCESS ? verify(queue, memory, offset, bytes, *nonzero_bytes) : status;
}
