// SPDX-License-Identifier: Apache-2.0
// A tenant that keeps an OpenCL device full with a real kernel: --items 4096 --rounds 2000 --in-flight 4
// --seconds 10 --start-ns N --lead-seconds 1. Prints the work-items that finished inside the window.
#include "cl_client.h"

static const char kSource[] =
    "kernel void mix_items(global uint* data, uint rounds) {"
    "  size_t i = get_global_id(0);"
    "  uint x = data[i];"
    "  for (uint r = 0; r < rounds; ++r) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; x += r; }"
    "  data[i] = x;"
    "}";

int main(int argc, char** argv) {
  const size_t items = (size_t)number_argument(argc, argv, "items", 4096);
  const cl_uint rounds = (cl_uint)number_argument(argc, argv, "rounds", 2000);
  const size_t group =
      (size_t)number_argument(argc, argv, "group", 64);  // Many groups: all units of the device work.
  const unsigned in_flight = (unsigned)number_argument(argc, argv, "in-flight", 4);
  struct Device d = open_device(0);
  cl_kernel kernel = build(d, kSource, "mix_items");
  cl_int status;
  cl_uint* start_values = malloc(items * sizeof *start_values);
  for (size_t i = 0; i < items; ++i) start_values[i] = (cl_uint)(i * 2654435761u + 1);
  cl_mem data = clCreateBuffer(
      d.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, items * sizeof(cl_uint), start_values, &status);
  CHECK(status);
  CHECK(clSetKernelArg(kernel, 0, sizeof data, &data));
  CHECK(clSetKernelArg(kernel, 1, sizeof rounds, &rounds));
  CHECK(clEnqueueNDRangeKernel(
      d.queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));  // Compiles for this size.
  CHECK(clFinish(d.queue));
  if (text_argument(argc, argv, "announce", NULL) != NULL) {
    printf("ready\n");
    fflush(stdout);
    char line[64];
    if (fgets(line, sizeof line, stdin) == NULL) return 4;
    sleep_to(strtoull(line, NULL, 10));
  }
  cl_event* events = calloc(in_flight, sizeof *events);
  const uint64_t from = clock_ns() + (uint64_t)(number_argument(argc, argv, "lead-seconds", 1) * 1e9);
  const uint64_t until = from + (uint64_t)(number_argument(argc, argv, "seconds", 10) * 1e9);
  uint64_t launched = 0, ended_inside = 0, now;
  while ((now = clock_ns()) < until) {
    const unsigned place = (unsigned)(launched % in_flight);
    if (launched >= in_flight) {
      CHECK(clWaitForEvents(1, &events[place]));
      CHECK(clReleaseEvent(events[place]));
      now = clock_ns();
      if (now >= from && now < until) ++ended_inside;
    }
    CHECK(clEnqueueNDRangeKernel(d.queue, kernel, 1, NULL, &items, &group, 0, NULL, &events[place]));
    CHECK(clFlush(d.queue));
    ++launched;
  }
  CHECK(clFinish(d.queue));
  printf("{\"items\": %llu, \"launches\": %llu, \"seconds\": %.3f}\n",
         (unsigned long long)(ended_inside * items),
         (unsigned long long)ended_inside,
         (double)(until - from) / 1e9);
  return 0;
}
