// SPDX-License-Identifier: Apache-2.0
// Secrets in memory: --mode write leaves a pattern behind and frees it; --mode scan takes memory until none
// is left and counts the words that are not zero; --mode keep writes, waits for a line on stdin, and checks
// its own pattern.
// --mib 64 --seed 7
#include "client.h"

static void run(CUmodule module, const char* name, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  CUfunction function;
  void* arguments[] = {&a, &b, &c, &d};
  CHECK(cuModuleGetFunction(&function, module, name));
  CHECK(cuLaunchKernel(function, 64, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
}

static uint64_t read_back(CUdeviceptr from) {
  uint64_t value = 0;
  CHECK(cuMemcpyDtoH_v2(&value, from, sizeof value));
  return value;
}

int main(int argc, char** argv) {
  const char* mode = text_argument(argc, argv, "mode", "write");
  const size_t bytes = (size_t)(number_argument(argc, argv, "mib", 64) * 1048576);
  const uint64_t seed = (uint64_t)number_argument(argc, argv, "seed", 7);
  CUcontext context;
  CUmodule module = open_device(&context);
  CUdeviceptr result, memory;
  CHECK(cuMemAlloc_v2(&result, 4096));
  if (strcmp(mode, "scan") == 0) {
    uint64_t taken = 0, nonzero = 0;
    while (taken < bytes && cuMemAlloc_v2(&memory, 1u << 20) == CUDA_SUCCESS) {
      run(module, "count_nonzero", memory, 1u << 20, result, 0);
      nonzero += read_back(result);
      taken += 1u << 20;
    }
    printf("{\"scanned\": %llu, \"nonzero_words\": %llu}\n",
           (unsigned long long)taken,
           (unsigned long long)nonzero);
    return 0;
  }
  CHECK(cuMemAlloc_v2(&memory, bytes));
  run(module, "canary_write", memory, bytes, seed, 0);
  CHECK(cuCtxSynchronize());
  if (strcmp(mode, "keep") == 0) {
    char line[16];
    printf("{\"ready\": true}\n");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL) return 4;
  }
  run(module, "canary_check", memory, bytes, seed, result);
  const uint64_t wrong = read_back(result);
  CHECK(cuMemFree_v2(memory));
  printf("{\"written\": %zu, \"wrong_words\": %llu}\n", bytes, (unsigned long long)wrong);
  return wrong == 0 ? 0 : 5;
}
