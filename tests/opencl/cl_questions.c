// SPDX-License-Identifier: Apache-2.0
// What a program is told about queues and timestamps: it must not notice that somebody else measures. Also
// runs an out-of-order queue, events of the program, and a native mapping, and prints one JSON line.
#include "cl_client.h"

static const char kSource[] = "kernel void fill_items(global uint* d, uint v) { d[get_global_id(0)] = v; }";

static int timestamps(struct Device d, cl_command_queue queue, cl_kernel kernel) {
  const size_t items = 1024;
  cl_event event;
  cl_ulong start = 0;
  CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, &event));
  CHECK(clWaitForEvents(1, &event));
  const cl_int status =
      clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
  CHECK(clReleaseEvent(event));
  (void)d;
  return status;
}

int main(void) {
  struct Device d = open_device(0);
  cl_int status;
  cl_command_queue timed = clCreateCommandQueue(d.context, d.device, CL_QUEUE_PROFILING_ENABLE, &status);
  CHECK(status);
  cl_command_queue loose =
      clCreateCommandQueue(d.context, d.device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
  CHECK(status);
  cl_kernel kernel = build(d, kSource, "fill_items");
  cl_mem memory = clCreateBuffer(d.context, CL_MEM_READ_WRITE, 4096, NULL, &status);
  CHECK(status);
  cl_uint value = 7;
  CHECK(clSetKernelArg(kernel, 0, sizeof memory, &memory));
  CHECK(clSetKernelArg(kernel, 1, sizeof value, &value));
  cl_command_queue_properties plain = 99;
  CHECK(clGetCommandQueueInfo(d.queue, CL_QUEUE_PROPERTIES, sizeof plain, &plain, NULL));
  const int untimed_status = timestamps(d, d.queue, kernel);
  const int timed_status = timestamps(d, timed, kernel);

  const size_t items = 1024;
  cl_event gate = clCreateUserEvent(d.context, &status), done[2];
  CHECK(status);
  value = 9;
  CHECK(clSetKernelArg(kernel, 1, sizeof value, &value));
  CHECK(clEnqueueNDRangeKernel(loose, kernel, 1, NULL, &items, NULL, 1, &gate, &done[0]));
  cl_uint read[1024] = {0};
  CHECK(clEnqueueReadBuffer(loose, memory, CL_FALSE, 0, sizeof read, read, 1, &done[0], &done[1]));
  CHECK(clReleaseMemObject(memory));  // Released with work still queued: the work must see it.
  CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
  CHECK(clWaitForEvents(1, &done[1]));
  cl_uint references = 0;
  cl_mem other = clCreateBuffer(d.context, CL_MEM_READ_WRITE, 4096, NULL, &status);
  CHECK(status);
  CHECK(clRetainMemObject(other));
  CHECK(clGetMemObjectInfo(other, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL));
  cl_uint* view = clEnqueueMapBuffer(d.queue, other, CL_TRUE, CL_MAP_WRITE, 0, 4096, 0, NULL, NULL, &status);
  CHECK(status);
  view[5] = 55;
  CHECK(clEnqueueUnmapMemObject(d.queue, other, view, 0, NULL, NULL));
  CHECK(clEnqueueReadBuffer(d.queue, other, CL_TRUE, 20, 4, read + 1, 0, NULL, NULL));
  char extensions[16384];
  size_t told = 0, got = 0;
  CHECK(clGetDeviceInfo(d.device, CL_DEVICE_EXTENSIONS, 0, NULL, &told));
  CHECK(clGetDeviceInfo(d.device, CL_DEVICE_EXTENSIONS, told, extensions, &got));
  printf(
      "{\"properties\": %d, \"untimed\": %d, \"timed\": %d, \"read\": %u, \"references\": %u, \"mapped\": "
      "%u, \"lengths\": %d}\n",
      (int)plain,
      untimed_status,
      timed_status,
      read[0],
      references,
      read[1],
      told == got && strlen(extensions) + 1 == told);
  return 0;
}
