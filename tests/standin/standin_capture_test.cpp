// SPDX-License-Identifier: Apache-2.0
// Stream capture: a guard that waits, asks or records at the wrong moment is caught here.
#include <doctest/doctest.h>
#include <thread>

#include "standin_fixture.hpp"

using namespace standin_test;

namespace {

CUstream capturing(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL,
                   unsigned flags = CU_STREAM_NON_BLOCKING) {
  const CUstream stream = new_stream(flags);
  REQUIRE(cuStreamBeginCapture_v2(stream, mode) == CUDA_SUCCESS);
  return stream;
}

CUresult end(CUstream stream) {
  CUgraph graph = nullptr;
  return cuStreamEndCapture(stream, &graph);
}

}  // namespace

TEST_CASE("stand-in capture: launches are recorded, and run when the graph is launched") {
  device();
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(memory, 0, 4096) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  const CUfunction add = kernel("add");
  const CUstream stream = capturing();
  std::uint64_t bytes = 4096, addend = 5;
  void* arguments[] = {&memory, &bytes, &addend};
  launch(add, stream, arguments);
  launch(add, stream, arguments);
  addend = 99;  // Arguments are taken at the call.
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<const unsigned*>(memory) == 0);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<const unsigned*>(memory) == 20);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
}

TEST_CASE("stand-in capture: waiting for or asking a capturing stream breaks the capture") {
  for (const auto call : {cuStreamSynchronize, cuStreamQuery}) {
    const CUstream stream = capturing();
    CHECK(call(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(cuLaunchKernel(kernel("busy_1ms"), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) ==
          CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_CASE("stand-in capture: an event of the capture cannot be asked, any other event not either") {
  const CUevent inside = new_event(), outside = new_event();
  const CUstream other = new_stream();
  REQUIRE(cuEventRecord(outside, other) == CUDA_SUCCESS);
  CUstream stream = capturing();
  REQUIRE(cuEventRecord(inside, stream) == CUDA_SUCCESS);
  CHECK(cuEventQuery(inside) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  stream = capturing();
  CHECK(cuEventQuery(outside) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE(
    "stand-in capture: a global capture forbids unsafe calls of other threads, a thread-local one does not") {
  const CUcontext context = device();
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    const CUevent event = new_event();
    const CUstream stream = capturing(mode);
    CUresult seen = CUDA_SUCCESS;
    std::thread([&] {
      cuCtxSetCurrent(context);
      seen = cuEventQuery(event);
    }).join();
    const bool global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    CHECK(seen == (global ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
    CHECK(end(stream) == (global ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS));
  }
}

TEST_CASE("stand-in capture: memory cannot be allocated unless the thread is relaxed") {
  CUdeviceptr memory = 0;
  CUstream stream = capturing();
  CHECK(cuMemAlloc_v2(&memory, 4096) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  stream = capturing();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&memory, 4096) == CUDA_SUCCESS);
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
}

TEST_CASE("stand-in capture: work on the legacy stream breaks the capture of a blocking stream") {
  const CUfunction busy = kernel("busy_1us");
  CUstream stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT);
  CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  stream = capturing(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_NON_BLOCKING);
  CHECK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
}

TEST_CASE("stand-in capture: a stream pulled in by an event must be joined again") {
  const CUfunction busy = kernel("busy_1us");
  const CUevent fork = new_event(), join = new_event();
  const CUstream side = new_stream();
  CUstream stream = capturing();
  REQUIRE(cuEventRecord(fork, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
  launch(busy, side);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  stream = capturing();
  REQUIRE(cuEventRecord(fork, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
  launch(busy, side);
  REQUIRE(cuEventRecord(join, side) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(stream, join, 0) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
}
