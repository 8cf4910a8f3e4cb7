// SPDX-License-Identifier: Apache-2.0
// The hand-over of memory: fills a buffer of --mib M plus three bytes, has the guard zero and verify all but
// its first and last byte, and reads all of it back for itself. Prints what the guard said and what is there.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "cl_client.h"

typedef int (*ZeroAndVerify)(void*, void*, size_t, size_t, uint64_t*);

int main(int argc, char** argv) {
  const size_t bytes = (size_t)(number_argument(argc, argv, "mib", 5) * 1048576) + 3;
  ZeroAndVerify zero_and_verify = (ZeroAndVerify)dlsym(RTLD_DEFAULT, "tranche_guard_opencl_zero_and_verify");
  if (zero_and_verify == NULL) return 4;
  struct Device d = open_device(0);
  cl_int status;
  cl_mem memory = clCreateBuffer(d.context, CL_MEM_READ_WRITE, bytes, NULL, &status);
  CHECK(status);
  const unsigned char mark = 0x5a;
  CHECK(clEnqueueFillBuffer(d.queue, memory, &mark, 1, 0, bytes, 0, NULL, NULL));
  CHECK(clFinish(d.queue));
  uint64_t left = 0, ignored = 0;
  const int done = zero_and_verify(d.queue, memory, 1, bytes - 2, &left);
  unsigned char* back = malloc(bytes);
  CHECK(clEnqueueReadBuffer(d.queue, memory, CL_TRUE, 0, bytes, back, 0, NULL, NULL));
  const int nothing = zero_and_verify(d.queue, memory, 0, 0, &ignored);
  const int beyond = zero_and_verify(d.queue, memory, 1, bytes, &ignored);
  size_t inside = 0;
  for (size_t i = 1; i + 1 < bytes; ++i) inside += back[i] != 0;
  printf(
      "{\"done\": %d, \"left\": %llu, \"inside\": %zu, \"outside\": %d, \"nothing\": %d, \"beyond\": %d}\n",
      done,
      (unsigned long long)left,
      inside,
      (back[0] == mark) + (back[bytes - 1] == mark),
      nothing,
      beyond);
  return 0;
}
