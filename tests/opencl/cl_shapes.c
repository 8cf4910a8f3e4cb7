// SPDX-License-Identifier: Apache-2.0
// Rectangles, images and a kernel's own local memory, each held against what the host expects. Prints one
// JSON line: 1 for each that was right, and the bytes that were moved by commands that copy or fill.
#include "cl_client.h"

enum { kSide = 64, kDepth = 4, kItems = kSide * kSide * kDepth };
static uint64_t moved = 0;

static const char kSource[] =
    "kernel void turn(global uint* d, local uint* t) { size_t i = get_local_id(0), n = get_local_size(0);"
    "  t[i] = d[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); d[get_global_id(0)] = t[n - 1 - i]; }";

static void count(const size_t* region) {
  moved += region[0] * region[1] * region[2];
}

// A box written into the middle of one buffer, copied to the corner of another, and read back.
static int rectangles(struct Device d) {
  cl_int status;
  static uint8_t from[kItems], to[kItems];
  const uint8_t zero = 0;
  for (int i = 0; i < kItems; ++i) from[i] = (uint8_t)(i * 7 + 1);
  cl_mem first = clCreateBuffer(d.context, CL_MEM_READ_WRITE, kItems, NULL, &status);
  CHECK(status);
  cl_mem second = clCreateBuffer(d.context, CL_MEM_READ_WRITE, kItems, NULL, &status);
  CHECK(status);
  CHECK(clEnqueueFillBuffer(d.queue, first, &zero, 1, 0, kItems, 0, NULL, NULL));
  CHECK(clEnqueueFillBuffer(d.queue, second, &zero, 1, 0, kItems, 0, NULL, NULL));
  moved += 2 * kItems;
  const size_t middle[3] = {16, 8, 1}, corner[3] = {0, 0, 0}, box[3] = {32, 16, 2}, row = kSide,
               slice = kSide * kSide;
  CHECK(clEnqueueWriteBufferRect(
      d.queue, first, CL_TRUE, middle, corner, box, row, slice, row, slice, from, 0, NULL, NULL));
  CHECK(clEnqueueCopyBufferRect(
      d.queue, first, second, middle, corner, box, row, slice, row, slice, 0, NULL, NULL));
  CHECK(clEnqueueReadBufferRect(
      d.queue, second, CL_TRUE, corner, middle, box, row, slice, row, slice, to, 0, NULL, NULL));
  for (int i = 0; i < 3; ++i) count(box);
  int right = 1;
  for (size_t z = 0; z < kDepth; ++z)
    for (size_t y = 0; y < kSide; ++y)
      for (size_t x = 0; x < kSide; ++x) {
        const int inside = x >= 16 && x < 48 && y >= 8 && y < 24 && z >= 1 && z < 3;
        const uint8_t expected = inside ? from[(z - 1) * slice + (y - 8) * row + (x - 16)] : 0;
        right &= to[z * slice + y * row + x] == expected;
      }
  CHECK(clReleaseMemObject(first));
  CHECK(clReleaseMemObject(second));
  return right;
}

// Through an image, another one, a buffer and back; and what is filled.
static int images(struct Device d) {
  cl_int status;
  static uint32_t from[kSide * kSide], to[kSide * kSide];
  for (int i = 0; i < kSide * kSide; ++i) from[i] = (uint32_t)i * 2654435761u;
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc shape = {0};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = shape.image_height = kSide;
  cl_mem image[2], buffer = clCreateBuffer(d.context, CL_MEM_READ_WRITE, sizeof from, NULL, &status);
  CHECK(status);
  for (int i = 0; i < 2; ++i) {
    image[i] = clCreateImage(d.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &status);
    CHECK(status);
  }
  const size_t origin[3] = {0, 0, 0}, all[3] = {kSide, kSide, 1}, strip[3] = {kSide, 2, 1};
  const cl_uint color[4] = {1, 2, 3, 4};
  CHECK(clEnqueueWriteImage(d.queue, image[0], CL_TRUE, origin, all, 0, 0, from, 0, NULL, NULL));
  CHECK(clEnqueueCopyImage(d.queue, image[0], image[1], origin, origin, all, 0, NULL, NULL));
  CHECK(clEnqueueCopyImageToBuffer(d.queue, image[1], buffer, origin, all, 0, 0, NULL, NULL));
  CHECK(clEnqueueFillImage(d.queue, image[0], color, origin, all, 0, NULL, NULL));
  CHECK(clEnqueueCopyBufferToImage(d.queue, buffer, image[0], 0, origin, all, 0, NULL, NULL));
  CHECK(clEnqueueFillImage(d.queue, image[0], color, origin, strip, 0, NULL, NULL));
  CHECK(clEnqueueReadImage(d.queue, image[0], CL_TRUE, origin, all, 0, 0, to, 0, NULL, NULL));
  moved += 6 * sizeof from + 4 * strip[0] * strip[1];
  int right = 1;
  for (int i = 0; i < kSide * kSide; ++i) right &= to[i] == (i < 2 * kSide ? 0x04030201u : from[i]);
  for (int i = 0; i < 2; ++i) CHECK(clReleaseMemObject(image[i]));
  CHECK(clReleaseMemObject(buffer));
  return right;
}

static int local_memory(struct Device d) {
  cl_int status;
  static cl_uint values[kSide * kSide];
  const size_t items = kSide * kSide, group = kSide;
  for (cl_uint i = 0; i < items; ++i) values[i] = i;
  cl_mem buffer = clCreateBuffer(d.context, CL_MEM_READ_WRITE, sizeof values, NULL, &status);
  CHECK(status);
  cl_kernel kernel = build(d, kSource, "turn");
  CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
  CHECK(clSetKernelArg(kernel, 1, group * sizeof(cl_uint), NULL));
  CHECK(clEnqueueWriteBuffer(d.queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
  CHECK(clEnqueueNDRangeKernel(d.queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
  // As large as a handle, which the argument is not.
  CHECK(clSetKernelArg(kernel, 1, sizeof(cl_mem), NULL));
  CHECK(clSetKernelArg(kernel, 1, group * sizeof(cl_uint), NULL));
  CHECK(clEnqueueNDRangeKernel(d.queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
  CHECK(clEnqueueNDRangeKernel(d.queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(d.queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL));
  moved += 2 * sizeof values;
  int right = 1;
  for (cl_uint i = 0; i < items; ++i) right &= values[i] == i / kSide * kSide + (kSide - 1 - i % kSide);
  CHECK(clReleaseMemObject(buffer));
  return right;
}

int main(void) {
  struct Device d = open_device(0);
  const int rect = rectangles(d), image = images(d), local = local_memory(d);
  printf("{\"rectangles\": %d, \"images\": %d, \"local\": %d, \"moved\": %llu}\n",
         rect,
         image,
         local,
         (unsigned long long)moved);
  return 0;
}
