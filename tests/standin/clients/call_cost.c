// SPDX-License-Identifier: Apache-2.0
// What does a call cost its caller? Thread CPU time in ns per launch, and per allocate + free with --live N
// other allocations; medians of --repeats 9. --lookup plt|dlsym|procaddress.
#include "client.h"

typedef CUresult (*LaunchKernel)(CUfunction,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 unsigned,
                                 CUstream,
                                 void**,
                                 void**);

static LaunchKernel find_launch(const char* lookup) {
  if (strcmp(lookup, "plt") == 0) return cuLaunchKernel;
  if (strcmp(lookup, "dlsym") == 0)
    return (LaunchKernel)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
  void* found = NULL;
  CUdriverProcAddressQueryResult result;
  CHECK(cuGetProcAddress_v2("cuLaunchKernel", &found, 12000, 0, &result));
  return (LaunchKernel)found;
}

int main(int argc, char** argv) {
  const unsigned repeats = (unsigned)number_argument(argc, argv, "repeats", 9);
  const unsigned live = (unsigned)number_argument(argc, argv, "live", 0);
  const unsigned launches = (unsigned)number_argument(argc, argv, "launches", 20000);
  const unsigned pairs = (unsigned)number_argument(argc, argv, "pairs", 2000);
  LaunchKernel launch = find_launch(text_argument(argc, argv, "lookup", "plt"));
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction function;
  CUstream stream;
  CHECK(cuModuleGetFunction(&function, module, "busy_1ns"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (unsigned i = 0; i < live; ++i) {
    CUdeviceptr ignored;
    CHECK(cuMemAlloc_v2(&ignored, 4096));
  }
  uint64_t* per_launch = calloc(repeats, sizeof *per_launch);
  uint64_t* per_pair = calloc(repeats, sizeof *per_pair);
  for (unsigned repeat = 0; repeat < repeats; ++repeat) {
    uint64_t from = thread_cpu_ns();
    for (unsigned i = 0; i < launches; ++i)
      CHECK(launch(function, 64, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
    per_launch[repeat] = (thread_cpu_ns() - from) * 100 / launches;
    CHECK(cuStreamSynchronize(stream));
    from = thread_cpu_ns();
    for (unsigned i = 0; i < pairs; ++i) {
      CUdeviceptr pointer;
      CHECK(cuMemAlloc_v2(&pointer, 65536));
      CHECK(cuMemFree_v2(pointer));
    }
    per_pair[repeat] = (thread_cpu_ns() - from) * 100 / pairs;
  }
  qsort(per_launch, repeats, sizeof *per_launch, compare_u64);
  qsort(per_pair, repeats, sizeof *per_pair, compare_u64);
  printf(
      "{\"launch_ns\": %.2f, \"launch_ns_min\": %.2f, \"pair_ns\": %.2f, \"pair_ns_min\": %.2f, \"live\": "
      "%u}\n",
      (double)per_launch[repeats / 2] / 100,
      (double)per_launch[0] / 100,
      (double)per_pair[repeats / 2] / 100,
      (double)per_pair[0] / 100,
      live);
  fflush(stdout);
  _exit(0);
}
