// SPDX-License-Identifier: Apache-2.0
// What the OpenCL test programs share. They are ordinary programs: nothing in them knows of a guard.
#ifndef TRANCHE_OPENCL_CLIENT_H
#define TRANCHE_OPENCL_CLIENT_H
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    cl_int check_status = (call);                                                        \
    if (check_status != CL_SUCCESS) {                                                    \
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

static inline void sleep_to(uint64_t at_ns) {
  struct timespec at = {(time_t)(at_ns / 1000000000ull), (long)(at_ns % 1000000000ull)};
  while (clock_ns() < at_ns) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

struct Device {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
};

static inline struct Device open_device(cl_command_queue_properties properties) {
  struct Device d;
  cl_platform_id platform;
  cl_int status;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &d.device, NULL));
  d.context = clCreateContext(NULL, 1, &d.device, NULL, NULL, &status);
  CHECK(status);
  d.queue = clCreateCommandQueue(d.context, d.device, properties, &status);
  CHECK(status);
  return d;
}

static inline cl_kernel build(struct Device d, const char* source, const char* name) {
  cl_int status;
  cl_program program = clCreateProgramWithSource(d.context, 1, &source, NULL, &status);
  CHECK(status);
  CHECK(clBuildProgram(program, 1, &d.device, "", NULL, NULL));
  cl_kernel kernel = clCreateKernel(program, name, &status);
  CHECK(status);
  return kernel;
}

#endif
