// SPDX-License-Identifier: Apache-2.0
// A computation over many kinds of memory whose result tells whether anything was lost on the way: --steps
// 200
// --mib 64 --step-ms 20. Buffers, a sub-buffer, an image, memory of the host, and kernel arguments set only
// once.
#include "cl_client.h"

// Every element is written by one work-item only, so the result does not depend on the order they run in.
static const char kSource[] =
    "kernel void step_items(global uint* whole, global uint* part, global uint* lent,"
    "                       read_only image2d_t picture, uint n, uint part_from) {"
    "  size_t i = get_global_id(0);"
    "  int2 place = (int2)(i % 64, (i / 64) % 64);"
    "  uint4 texel = read_imageui(picture, CLK_NORMALIZED_COORDS_FALSE | CLK_FILTER_NEAREST, place);"
    "  if (i < part_from || i >= part_from + n) {"
    "    uint x = whole[i] + texel.x;"
    "    x ^= x << 13; x ^= x >> 17; x ^= x << 5;"
    "    whole[i] = x;"
    "  }"
    "  if (i < n) { lent[i] = lent[i] * 3 + texel.y; part[i] ^= lent[i]; }"
    "}";

int main(int argc, char** argv) {
  const size_t items = (size_t)(number_argument(argc, argv, "mib", 64) * 262144);
  const unsigned steps = (unsigned)number_argument(argc, argv, "steps", 200);
  const cl_uint n = 1024;
  struct Device d = open_device(CL_QUEUE_PROFILING_ENABLE);
  cl_kernel kernel = build(d, kSource, "step_items");
  cl_int status;
  cl_uint* values = malloc(items * sizeof *values);
  for (size_t i = 0; i < items; ++i) values[i] = (cl_uint)(i * 2654435761u + 7);
  cl_uint* lent_values = aligned_alloc(4096, n * sizeof *lent_values);
  memcpy(lent_values, values, n * sizeof *lent_values);
  cl_mem whole =
      clCreateBuffer(d.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, items * 4, values, &status);
  CHECK(status);
  cl_buffer_region region = {items * 2 / 4096 * 4096, n * 4};
  cl_mem part = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  CHECK(status);
  cl_mem lent =
      clCreateBuffer(d.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, n * 4, lent_values, &status);
  CHECK(status);
  cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc shape = {0};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = shape.image_height = 64;
  cl_mem picture =
      clCreateImage(d.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &shape, values, &status);
  CHECK(status);
  CHECK(clSetKernelArg(kernel, 0, sizeof whole, &whole));
  CHECK(clSetKernelArg(kernel, 1, sizeof part, &part));
  CHECK(clSetKernelArg(kernel, 2, sizeof lent, &lent));
  CHECK(clSetKernelArg(kernel, 3, sizeof picture, &picture));
  CHECK(clSetKernelArg(kernel, 4, sizeof n, &n));
  const cl_uint part_from = (cl_uint)(region.origin / 4);
  CHECK(clSetKernelArg(kernel, 5, sizeof part_from, &part_from));
  printf("ready\n");
  fflush(stdout);
  for (unsigned step = 0; step < steps; ++step) {
    CHECK(clEnqueueNDRangeKernel(d.queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    if (step % 8 == 7) CHECK(clFinish(d.queue));
    usleep((useconds_t)(number_argument(argc, argv, "step-ms", 5) * 1000));
  }
  uint64_t checksum = 0;
  CHECK(clEnqueueReadBuffer(d.queue, whole, CL_TRUE, 0, items * 4, values, 0, NULL, NULL));
  for (size_t i = 0; i < items; ++i) checksum = checksum * 1099511628211ull + values[i];
  CHECK(clEnqueueReadBuffer(d.queue, lent, CL_TRUE, 0, n * 4, values, 0, NULL, NULL));
  for (size_t i = 0; i < n; ++i) checksum = checksum * 1099511628211ull + values[i];
  printf("{\"checksum\": %llu, \"steps\": %u}\n", (unsigned long long)checksum, steps);
  return 0;
}
