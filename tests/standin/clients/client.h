// SPDX-License-Identifier: Apache-2.0
// What the workload programs share: arguments as --name value, time, and a check that ends the program.
#ifndef TRANCHE_STANDIN_CLIENT_H
#define TRANCHE_STANDIN_CLIENT_H
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin_cuda.h"

#define CHECK(call)                                                                      \
  do {                                                                                   \
    CUresult check_status = (call);                                                      \
    if (check_status != CUDA_SUCCESS) {                                                  \
      fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, (int)check_status); \
      exit(3);                                                                           \
    }                                                                                    \
  } while (0)

static inline const char* text_argument(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0) return argv[i + 1];
  return otherwise;
}

static inline double number_argument(int argc, char** argv, const char* name, double otherwise) {
  const char* text = text_argument(argc, argv, name, NULL);
  return text == NULL ? otherwise : atof(text);
}

static inline uint64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline void sleep_to(uint64_t at_ns) {
  struct timespec at = {(time_t)(at_ns / 1000000000ull), (long)(at_ns % 1000000000ull)};
  while (clock_ns() < at_ns) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static inline int compare_u64(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}

// Opens device 0 and a module; returns the module.
static inline CUmodule open_device(CUcontext* context) {
  CUdevice device;
  CUmodule module;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuCtxCreate_v2(context, 0, device));
  CHECK(cuModuleLoadData(&module, "any"));
  return module;
}

#endif
