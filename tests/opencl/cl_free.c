// SPDX-License-Identifier: Apache-2.0
// What freeing costs: creates, touches and releases buffers of --mib M until --seconds S are over, then
// copies inside the device for as long. Prints bytes per second of both. Freed memory is zeroed while tenants
// share a device.
#include "cl_client.h"

int main(int argc, char** argv) {
  const size_t bytes = (size_t)(number_argument(argc, argv, "mib", 16) * 1048576);
  const uint64_t length = (uint64_t)(number_argument(argc, argv, "seconds", 2) * 1e9);
  struct Device d = open_device(0);
  cl_int status;
  cl_mem from = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, NULL, &status);
  CHECK(status);
  cl_mem to = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, NULL, &status);
  CHECK(status);
  const cl_uint one = 1;
  CHECK(clEnqueueFillBuffer(d.queue, from, &one, 4, 0, bytes, 0, NULL, NULL));
  CHECK(clEnqueueFillBuffer(d.queue, to, &one, 4, 0, bytes, 0, NULL, NULL));
  CHECK(clFinish(d.queue));
  uint64_t copied = 0, start = clock_ns(), taken;
  while ((taken = clock_ns() - start) < length) {
    CHECK(clEnqueueCopyBuffer(d.queue, from, to, 0, 0, bytes, 0, NULL, NULL));
    CHECK(clFinish(d.queue));
    copied += bytes;
  }
  const double copy_rate = (double)copied * 1e9 / (double)taken;
  uint64_t freed = 0, spent = 0;
  // Where freeing costs next to nothing, what lies between the frees would take minutes.
  const uint64_t end = clock_ns() + 2 * length;
  while (spent < length && clock_ns() < end) {
    cl_mem memory = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    CHECK(status);
    CHECK(clEnqueueCopyBuffer(d.queue, from, memory, 0, 0, bytes, 0, NULL, NULL));
    CHECK(clFinish(d.queue));
    start = clock_ns();
    CHECK(clReleaseMemObject(memory));
    // The slice has room for three buffers only: the next can be made when this one is really gone.
    cl_mem next = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    CHECK(status);
    spent += clock_ns() - start;
    CHECK(clReleaseMemObject(next));
    freed += bytes;
  }
  printf("{\"copy_bytes_per_s\": %.0f, \"free_bytes_per_s\": %.0f}\n",
         copy_rate,
         (double)freed * 1e9 / (double)spent);
  return 0;
}
