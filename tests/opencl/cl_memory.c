// SPDX-License-Identifier: Apache-2.0
// Takes memory of one kind until the device says no: --kind buffer|image|svm|pipe|sub --step BYTES. Prints
// how much it got, the error, and what the device says about its size.
#include "cl_client.h"

int main(int argc, char** argv) {
  const char* kind = text_argument(argc, argv, "kind", "buffer");
  const size_t step = (size_t)number_argument(argc, argv, "step", 1 << 20);
  const size_t most = (size_t)number_argument(argc, argv, "most", 1e12);
  struct Device d = open_device(0);
  cl_ulong total = 0, largest = 0;
  CHECK(clGetDeviceInfo(d.device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, NULL));
  CHECK(clGetDeviceInfo(d.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL));
  uint64_t taken = 0, count = 0;
  cl_int status = CL_SUCCESS;
  cl_mem last = NULL;
  cl_mem* held = calloc(1 << 20, sizeof *held);
  while (taken < most && count < (1 << 20)) {
    cl_mem memory = NULL;
    if (strcmp(kind, "buffer") == 0) {
      memory = clCreateBuffer(d.context, CL_MEM_READ_WRITE, step, NULL, &status);
    } else if (strcmp(kind, "image") == 0) {
      cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
      cl_image_desc shape = {0};
      shape.image_type = CL_MEM_OBJECT_IMAGE2D;
      shape.image_width = 256;
      shape.image_height = step / 1024;
      memory = clCreateImage(d.context, CL_MEM_READ_WRITE, &format, &shape, NULL, &status);
    } else if (strcmp(kind, "svm") == 0) {
      status = clSVMAlloc(d.context, CL_MEM_READ_WRITE, step, 0) == NULL ? CL_MEM_OBJECT_ALLOCATION_FAILURE
                                                                         : CL_SUCCESS;
      memory = status == CL_SUCCESS ? (cl_mem)1 : NULL;
    } else if (strcmp(kind, "pipe") == 0) {
      memory = clCreatePipe(d.context, CL_MEM_READ_WRITE, 64, (cl_uint)(step / 64), NULL, &status);
    } else if (strcmp(kind, "sub") == 0 && last == NULL) {
      memory = last = clCreateBuffer(d.context, CL_MEM_READ_WRITE, step, NULL, &status);
    } else {
      cl_buffer_region region = {0, step};
      memory = clCreateSubBuffer(last, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
      if (count > 1000) break;
    }
    if (memory == NULL) break;
    held[count++] = memory;
    taken += step;
  }
  if (number_argument(argc, argv, "release", 0) != 0 && strcmp(kind, "svm") != 0)
    for (uint64_t i = count; i-- > 0;) CHECK(clReleaseMemObject(held[i]));
  printf("{\"taken\": %llu, \"count\": %llu, \"error\": %d, \"total\": %llu, \"largest\": %llu}\n",
         (unsigned long long)taken,
         (unsigned long long)count,
         status,
         (unsigned long long)total,
         (unsigned long long)largest);
  return 0;
}
