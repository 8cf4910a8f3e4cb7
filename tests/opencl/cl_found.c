// SPDX-License-Identifier: Apache-2.0
// What is in memory that nobody wrote to yet? Counts the bytes that are not zero in a new buffer, a new image
// and new shared memory, writes to all of it, and frees it: shared memory the one half at once, the other in
// a queue.
#include "cl_client.h"

enum { kSide = 64, kBytes = kSide * kSide * 4 };
static unsigned char back[kBytes];

static int found(const unsigned char* bytes) {
  int nonzero = 0;
  for (int i = 0; i < kBytes; ++i) nonzero += bytes[i] != 0;
  return nonzero;
}

static int in_buffer(struct Device d) {
  cl_int status;
  const cl_uint mark = 0x5a5a5a5a;
  cl_mem buffer = clCreateBuffer(d.context, CL_MEM_READ_WRITE, kBytes, NULL, &status);
  CHECK(status);
  CHECK(clEnqueueReadBuffer(d.queue, buffer, CL_TRUE, 0, kBytes, back, 0, NULL, NULL));
  for (int i = 0; i < kSide * kSide; ++i)
    CHECK(clEnqueueWriteBuffer(d.queue, buffer, CL_TRUE, (size_t)i * 4, 4, &mark, 0, NULL, NULL));
  CHECK(clReleaseMemObject(buffer));
  return found(back);
}

static int in_image(struct Device d) {
  cl_int status;
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc shape = {0};
  shape.image_type = CL_MEM_OBJECT_IMAGE2D;
  shape.image_width = shape.image_height = kSide;
  cl_mem image = clCreateImage(d.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &status);
  CHECK(status);
  const size_t origin[3] = {0, 0, 0}, all[3] = {kSide, kSide, 1};
  CHECK(clEnqueueReadImage(d.queue, image, CL_TRUE, origin, all, 0, 0, back, 0, NULL, NULL));
  const int nonzero = found(back);
  memset(back, 0x5a, sizeof back);
  CHECK(clEnqueueWriteImage(d.queue, image, CL_TRUE, origin, all, 0, 0, back, 0, NULL, NULL));
  CHECK(clReleaseMemObject(image));
  return nonzero;
}

static int in_shared_memory(struct Device d) {
  int nonzero = 0;
  for (int half = 0; half < 2; ++half) {
    void* memory = clSVMAlloc(d.context, CL_MEM_READ_WRITE, kBytes, 0);
    if (memory == NULL) return -1;
    CHECK(clEnqueueSVMMap(d.queue, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, memory, kBytes, 0, NULL, NULL));
    nonzero += found(memory);
    memset(memory, 0x5a, kBytes);
    CHECK(clEnqueueSVMUnmap(d.queue, memory, 0, NULL, NULL));
    CHECK(clFinish(d.queue));
    if (half == 0) clSVMFree(d.context, memory);
    if (half == 1) CHECK(clEnqueueSVMFree(d.queue, 1, &memory, NULL, NULL, 0, NULL, NULL));
    CHECK(clFinish(d.queue));
  }
  return nonzero;
}

int main(void) {
  struct Device d = open_device(0);
  const int buffer = in_buffer(d), image = in_image(d), shared = in_shared_memory(d);
  CHECK(clReleaseCommandQueue(d.queue));
  CHECK(clReleaseContext(d.context));
  printf("{\"buffer\": %d, \"image\": %d, \"shared\": %d}\n", buffer, image, shared);
  return 0;
}
