// SPDX-License-Identifier: Apache-2.0
// A light tenant: --count 5 kernels of --kernel 1ms each --period-ms 50, for --seconds 10. Prints the latency
// of each burst, from the first launch until the host knows that the last one ended.
#include "client.h"

int main(int argc, char** argv) {
  const unsigned count = (unsigned)number_argument(argc, argv, "count", 5);
  const uint64_t period = (uint64_t)(number_argument(argc, argv, "period-ms", 50) * 1e6);
  char name[64];
  snprintf(name, sizeof name, "busy_%s", text_argument(argc, argv, "kernel", "1ms"));
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction function;
  CUstream stream;
  CHECK(cuModuleGetFunction(&function, module, name));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const uint64_t start = (uint64_t)number_argument(argc, argv, "start-ns", (double)clock_ns());
  const uint64_t until = start + (uint64_t)(number_argument(argc, argv, "seconds", 10) * 1e9);
  const size_t room = (size_t)((until - start) / period + 2);
  uint64_t* latencies = calloc(room, sizeof *latencies);
  size_t bursts = 0;
  for (uint64_t at = start; at < until && bursts < room; at += period) {
    sleep_to(at);
    const uint64_t begin = clock_ns();
    for (unsigned i = 0; i < count; ++i)
      CHECK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamSynchronize(stream));
    latencies[bursts++] = clock_ns() - begin;
  }
  qsort(latencies, bursts, sizeof *latencies, compare_u64);
  printf("{\"bursts\": %zu, \"p50_ms\": %.4f, \"p99_ms\": %.4f, \"max_ms\": %.4f}\n",
         bursts,
         (double)latencies[bursts / 2] / 1e6,
         (double)latencies[bursts * 99 / 100] / 1e6,
         (double)latencies[bursts - 1] / 1e6);
  fflush(stdout);
  _exit(0);
}
