// SPDX-License-Identifier: Apache-2.0
// The clock of the simulated device. Claims are made in device time, or as lower bounds of real time.
#include <chrono>
#include <cstring>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "standin_fixture.hpp"

using namespace standin_test;
using Clock = std::chrono::steady_clock;

namespace {
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}
}  // namespace

TEST_CASE("stand-in engine: kernels of different streams run one at a time in the order queued") {
  const CUstream first = new_stream(), second = new_stream();
  const CUevent after_first = new_event(), after_second = new_event();
  launch(kernel("busy_200ms"), first);
  REQUIRE(cuEventRecord(after_first, first) == CUDA_SUCCESS);
  launch(kernel("busy_30ms"), second);
  REQUIRE(cuEventRecord(after_second, second) == CUDA_SUCCESS);
  CHECK(elapsed_ms(after_first, after_second) == doctest::Approx(30.0).epsilon(1e-4));
}

TEST_CASE(
    "stand-in engine: a copy does not wait for a running kernel, and work behind it waits for the copy") {
  static char host[1 << 20];
  const CUstream busy = new_stream(), copier = new_stream();
  const CUevent kernel_done = new_event(), copy_done = new_event(), behind = new_event();
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, sizeof host) == CUDA_SUCCESS);
  launch(kernel("busy_200ms"), busy);
  REQUIRE(cuEventRecord(kernel_done, busy) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyHtoDAsync_v2(memory, host, sizeof host, copier) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(copy_done, copier) == CUDA_SUCCESS);
  launch(kernel("busy_1ms"), copier);
  REQUIRE(cuEventRecord(behind, copier) == CUDA_SUCCESS);
  CHECK(elapsed_ms(copy_done, kernel_done) > 0);
  CHECK(elapsed_ms(kernel_done, behind) == doctest::Approx(1.0).epsilon(1e-3));
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
}

TEST_CASE("stand-in engine: a hole in front of dependent work is filled by work that fits") {
  static char host[12 << 20];  // A millisecond of copying at 12 GB/s.
  CUdeviceptr memory = 0;
  const CUstream dependent = new_stream(), other = new_stream();
  const CUevent copied = new_event(), filler = new_event();
  REQUIRE(cuMemAlloc_v2(&memory, sizeof host) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  for (int i = 0; i < 300; ++i)
    REQUIRE(cuMemcpyHtoDAsync_v2(memory, host, sizeof host, dependent) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(copied, dependent) == CUDA_SUCCESS);
  launch(kernel("busy_1ms"), dependent);
  launch(kernel("busy_1ms"), other);
  REQUIRE(cuEventRecord(filler, other) == CUDA_SUCCESS);
  CHECK(elapsed_ms(filler, copied) > 0);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
}

TEST_CASE("stand-in event: completion is known only after the lag, by query as by wait") {
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  const auto start = Clock::now();
  launch(kernel("busy_1ms"), stream);
  REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  CHECK(ms_since(start) >= 6.0);
  const auto again = Clock::now();
  launch(kernel("busy_1ms"), stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ms_since(again) >= 6.0);
}

TEST_CASE("stand-in event: recording and asking cost the caller what they would") {
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  const auto records = Clock::now();
  for (int i = 0; i < 1000; ++i) REQUIRE(cuEventRecord(event, stream) == CUDA_SUCCESS);
  CHECK(ms_since(records) >= 1.0);
  const auto queries = Clock::now();
  for (int i = 0; i < 1000; ++i) cuEventQuery(event);
  CHECK(ms_since(queries) >= 0.5);
}

TEST_CASE("stand-in legacy stream: it waits for blocking streams, not for the others") {
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT), free_running = new_stream();
  const CUevent blocked = new_event(), legacy = new_event(), apart = new_event();
  launch(kernel("busy_100ms"), blocking);
  REQUIRE(cuEventRecord(blocked, blocking) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(legacy, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(apart, free_running) == CUDA_SUCCESS);
  CHECK(elapsed_ms(blocked, legacy) >= 0);
  CHECK(elapsed_ms(apart, legacy) > 0);
}

TEST_CASE("stand-in effect: memory changes when the work ends, not when it is queued") {
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
  const CUstream stream = new_stream();
  const volatile auto* bytes = reinterpret_cast<const volatile unsigned char*>(memory);
  REQUIRE(cuMemsetD8_v2(memory, 1, 4096) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  launch(kernel("busy_400ms"), stream);
  REQUIRE(cuMemsetD8Async(memory, 2, 4096, stream) == CUDA_SUCCESS);
  CHECK(bytes[17] == 1);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(bytes[17] == 2);
  CHECK(cuMemFree_v2(memory) == CUDA_SUCCESS);
}

TEST_CASE("stand-in device: another process waits behind a running kernel, which is not preempted") {
  const std::string state = fresh_state("event_lag = 20us\nvram = 1GiB\n");
  const auto start = Clock::now();
  std::thread greedy([&] { run(state, "tenant --kernel 700ms --in-flight 1 --seconds 0.1"); });
  for (Outcome seen; number(seen.text, "kernels") < 1;) seen = run(state, "standin_stats 1");
  const Outcome light = run(state, "periodic --count 1 --kernel 1ms --seconds 0.01");
  greedy.join();
  CHECK(light.status == 0);
  CHECK(number(light.text, "bursts") == 1);
  CHECK(ms_since(start) >= 700);
}

TEST_CASE("stand-in device: the work of a killed process still drains before the next one runs") {
  const std::string state = fresh_state("event_lag = 20us\nvram = 1GiB\n");
  const auto start = Clock::now();
  const Outcome killed = run(state, "tenant --kernel 500ms --in-flight 2 --seconds 0.05 --lead-seconds 0");
  CHECK(killed.status == 0);  // It leaves with its last kernels still queued.
  const Outcome light = run(state, "periodic --count 1 --kernel 1ms --seconds 0.01");
  CHECK(light.status == 0);
  CHECK(ms_since(start) >= 1000);
}

TEST_CASE("stand-in driver: a forked child is refused, as by the real one") {
  device();
  const pid_t child = ::fork();
  if (child == 0) {
    CUdevice ordinal = 0;
    ::_exit(cuDeviceGet(&ordinal, 0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
}
