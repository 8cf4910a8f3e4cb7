// SPDX-License-Identifier: Apache-2.0
// What it costs to leave nothing behind: --mib 16 --seconds 0.5 for each of: copies inside the device; frees
// of written memory, until the device is done with them; copies to the host; and, where the guard offers it,
// zero_and_verify. Prints bytes per second.
#include "client.h"

typedef int (*ZeroAndVerify)(uint64_t, size_t, uint64_t*);

int main(int argc, char** argv) {
  const size_t bytes = (size_t)(number_argument(argc, argv, "mib", 16) * 1048576);
  const uint64_t length = (uint64_t)(number_argument(argc, argv, "seconds", 0.5) * 1e9);
  CUcontext context;
  open_device(&context);
  CUdeviceptr from, to;
  void* host;
  CHECK(cuMemAlloc_v2(&from, bytes));
  CHECK(cuMemAlloc_v2(&to, bytes));
  CHECK(cuMemHostAlloc(&host, bytes, 0));
  memset(host, 1, bytes);
  CHECK(cuMemsetD8_v2(from, 1, bytes));
  CHECK(cuMemcpyDtoD_v2(to, from, bytes));
  CHECK(cuCtxSynchronize());
  sleep_to((uint64_t)number_argument(argc, argv, "start-ns", 0));
  double copied = 0, freed = 0, read = 0, verified = 0;
  uint64_t spent = 0, start;
  for (; spent < length; copied += (double)bytes) {
    start = clock_ns();
    CHECK(cuMemcpyDtoD_v2(to, from, bytes));
    CHECK(cuCtxSynchronize());
    spent += clock_ns() - start;
  }
  printf("{\"copy\": %.0f", copied * 1e9 / (double)spent);
  // Most of the time goes into what is not measured: filling the memory first.
  const uint64_t freeing_until = clock_ns() + 3 * length;
  for (spent = 0; spent < length && clock_ns() < freeing_until; freed += (double)bytes) {
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2(&memory, bytes));
    CHECK(cuMemcpyDtoD_v2(memory, from, bytes));
    CHECK(cuCtxSynchronize());
    start = clock_ns();
    CHECK(cuMemFree_v2(memory));
    CHECK(cuCtxSynchronize());
    spent += clock_ns() - start;
  }
  printf(", \"free\": %.0f", freed * 1e9 / (double)spent);
  for (spent = 0; spent < length; read += (double)bytes) {
    start = clock_ns();
    CHECK(cuMemcpyDtoH_v2(host, from, bytes));
    spent += clock_ns() - start;
  }
  printf(", \"read\": %.0f", read * 1e9 / (double)spent);
  ZeroAndVerify zero = (ZeroAndVerify)dlsym(RTLD_DEFAULT, "tranche_guard_cuda_zero_and_verify");
  for (spent = 0; zero != NULL && spent < length; verified += (double)bytes) {
    uint64_t nonzero = 0;
    start = clock_ns();
    CHECK((CUresult)zero(to, bytes, &nonzero));
    spent += clock_ns() - start;
    if (nonzero != 0) return 4;
  }
  printf(", \"verify\": %.0f}\n", spent == 0 ? 0 : verified * 1e9 / (double)spent);
  fflush(stdout);
  _exit(0);
}
