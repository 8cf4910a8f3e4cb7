// SPDX-License-Identifier: Apache-2.0
// TEST EQUIPMENT, never installed: an OpenCL layer that makes a good device bad, for tests of our device
// tests.
//   OPENCL_LAYERS=libfaulty-opencl.so TRANCHE_FAULT=stuck|flip|wrong|unfilled|slow|used|used,unfillable
//   stuck  a bit of every buffer of 64 KiB or more is always one
//   flip   one byte of such a buffer changes once, after the fifth kernel
//   wrong  every third kernel leaves out its last item
//   unfilled  a fill leaves out its last byte
//   used   new memory holds what another left in it, and what goes back with something in it is told:
//          "faulty-opencl: N bytes left" on the error stream
//   unfillable  no command can fill anything
//   slow   kernels take 50 ms longer, and bytes move at no more than 25 MB/s
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <CL/cl_layer.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define BUFFERS_MAX 4096
#define BAD_BYTE 12345

static cl_icd_dispatch real, ours;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_mem buffers[BUFFERS_MAX];
static unsigned buffer_count, launches;

static int fault_is(const char* name) {
  const char* fault = getenv("TRANCHE_FAULT");
  const size_t length = strlen(name);
  for (; fault != NULL; fault = strchr(fault, ',') == NULL ? NULL : strchr(fault, ',') + 1)
    if (strncmp(fault, name, length) == 0 && (fault[length] == 0 || fault[length] == ',')) return 1;
  return 0;
}

// Memory of the device that another had before: where it lies is known, so that its end can be looked at.
struct Used {
  const void* object;
  unsigned char* bytes;
  size_t size;
};
static struct Used used[BUFFERS_MAX];
static unsigned used_count;

static void note_used(const void* object, unsigned char* bytes, size_t size) {
  pthread_mutex_lock(&lock);
  if (object != NULL && used_count < BUFFERS_MAX) used[used_count++] = (struct Used){object, bytes, size};
  pthread_mutex_unlock(&lock);
}

static void look_at_the_end_of(const void* object) {
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < used_count; ++i) {
    if (used[i].object != object) continue;
    size_t left = 0;
    for (size_t at = 0; at < used[i].size; ++at) left += used[i].bytes[at] != 0;
    if (left != 0) fprintf(stderr, "faulty-opencl: %zu bytes left\n", left);
    used[i--] = used[--used_count];
  }
  pthread_mutex_unlock(&lock);
}

static unsigned char* used_memory(size_t size) {
  unsigned char* bytes = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  memset(bytes, 0x5a, size);
  return bytes;
}

static void pause_ns(long long ns) {
  struct timespec left = {ns / 1000000000, ns % 1000000000};
  while (nanosleep(&left, &left) != 0) {}
}

static cl_mem CL_API_CALL
create_buffer(cl_context context, cl_mem_flags flags, size_t size, void* host, cl_int* status) {
  unsigned char* bytes = fault_is("used") && host == NULL ? used_memory(size) : NULL;
  cl_mem made = bytes == NULL
                    ? real.clCreateBuffer(context, flags, size, host, status)
                    : real.clCreateBuffer(context, flags | CL_MEM_USE_HOST_PTR, size, bytes, status);
  if (bytes != NULL) note_used(made, bytes, size);
  pthread_mutex_lock(&lock);
  if (made != NULL && size >= 65536 && buffer_count < BUFFERS_MAX) buffers[buffer_count++] = made;
  pthread_mutex_unlock(&lock);
  return made;
}

// Memory that keeps what it held is no processor's: the host's kernel would have zeroed it.
static cl_int CL_API_CALL
device_info(cl_device_id device, cl_device_info name, size_t room, void* out, size_t* size) {
  const cl_int status = real.clGetDeviceInfo(device, name, room, out, size);
  if (status == CL_SUCCESS && name == CL_DEVICE_TYPE && out != NULL && fault_is("used"))
    *(cl_device_type*)out = CL_DEVICE_TYPE_GPU;
  return status;
}

// Of four bytes a texel.
static cl_mem CL_API_CALL create_image(cl_context context,
                                       cl_mem_flags flags,
                                       const cl_image_format* format,
                                       const cl_image_desc* shape,
                                       void* host,
                                       cl_int* status) {
  const size_t size = shape->image_width * shape->image_height * 4;
  unsigned char* bytes = fault_is("used") && host == NULL ? used_memory(size) : NULL;
  cl_mem made = bytes == NULL
                    ? real.clCreateImage(context, flags, format, shape, host, status)
                    : real.clCreateImage(context, flags | CL_MEM_USE_HOST_PTR, format, shape, bytes, status);
  if (bytes != NULL) note_used(made, bytes, size);
  return made;
}

static void* CL_API_CALL svm_alloc(cl_context context,
                                   cl_svm_mem_flags flags,
                                   size_t size,
                                   cl_uint alignment) {
  void* made = real.clSVMAlloc(context, flags, size, alignment);
  if (made != NULL && fault_is("used")) note_used(made, memset(made, 0x5a, size), size);
  return made;
}

static void CL_API_CALL svm_free(cl_context context, void* pointer) {
  look_at_the_end_of(pointer);
  real.clSVMFree(context, pointer);
}

static cl_int CL_API_CALL svm_fill(cl_command_queue queue,
                                   void* to,
                                   const void* pattern,
                                   size_t pattern_size,
                                   size_t size,
                                   cl_uint waits,
                                   const cl_event* list,
                                   cl_event* event) {
  if (fault_is("unfillable")) return CL_OUT_OF_RESOURCES;
  return real.clEnqueueSVMMemFill(queue, to, pattern, pattern_size, size, waits, list, event);
}

static cl_int CL_API_CALL fill_image(cl_command_queue queue,
                                     cl_mem image,
                                     const void* color,
                                     const size_t* origin,
                                     const size_t* region,
                                     cl_uint waits,
                                     const cl_event* list,
                                     cl_event* event) {
  if (fault_is("unfillable")) return CL_OUT_OF_RESOURCES;
  return real.clEnqueueFillImage(queue, image, color, origin, region, waits, list, event);
}

static cl_int CL_API_CALL release_buffer(cl_mem memory) {
  look_at_the_end_of(memory);
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < buffer_count; ++i)
    if (buffers[i] == memory) buffers[i--] = buffers[--buffer_count];
  pthread_mutex_unlock(&lock);
  return real.clReleaseMemObject(memory);
}

static void change_byte(cl_command_queue queue, cl_mem memory, unsigned char set, unsigned char toggle) {
  unsigned char byte = 0;
  real.clEnqueueReadBuffer(queue, memory, CL_TRUE, BAD_BYTE, 1, &byte, 0, NULL, NULL);
  byte = (unsigned char)((byte | set) ^ toggle);
  real.clEnqueueWriteBuffer(queue, memory, CL_TRUE, BAD_BYTE, 1, &byte, 0, NULL, NULL);
}

static void spoil_memory(cl_command_queue queue) {
  pthread_mutex_lock(&lock);
  if (fault_is("stuck"))
    for (unsigned i = 0; i < buffer_count; ++i) change_byte(queue, buffers[i], 0x10, 0);
  if (fault_is("flip") && launches == 5 && buffer_count > 0)
    change_byte(queue, buffers[buffer_count - 1], 0, 0x04);
  pthread_mutex_unlock(&lock);
}

static cl_int CL_API_CALL launch(cl_command_queue queue,
                                 cl_kernel kernel,
                                 cl_uint dimensions,
                                 const size_t* offset,
                                 const size_t* global,
                                 const size_t* local,
                                 cl_uint waits,
                                 const cl_event* list,
                                 cl_event* event) {
  size_t size = global[0];
  pthread_mutex_lock(&lock);
  const unsigned number = ++launches;
  pthread_mutex_unlock(&lock);
  if (fault_is("wrong") && number % 3 == 0 && dimensions == 1 && size > 1 && (local == NULL || local[0] == 1))
    --size;
  if (fault_is("slow")) pause_ns(50000000);
  const cl_int status = real.clEnqueueNDRangeKernel(
      queue, kernel, dimensions, offset, dimensions == 1 ? &size : global, local, waits, list, event);
  spoil_memory(queue);
  return status;
}

static void move_slowly(size_t bytes) {
  if (fault_is("slow")) pause_ns((long long)bytes * 40);
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue,
                                      cl_mem memory,
                                      cl_bool blocking,
                                      size_t offset,
                                      size_t size,
                                      void* out,
                                      cl_uint waits,
                                      const cl_event* list,
                                      cl_event* event) {
  move_slowly(size);
  return real.clEnqueueReadBuffer(queue, memory, blocking, offset, size, out, waits, list, event);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue,
                                       cl_mem memory,
                                       cl_bool blocking,
                                       size_t offset,
                                       size_t size,
                                       const void* in,
                                       cl_uint waits,
                                       const cl_event* list,
                                       cl_event* event) {
  move_slowly(size);
  return real.clEnqueueWriteBuffer(queue, memory, blocking, offset, size, in, waits, list, event);
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue,
                                      cl_mem memory,
                                      const void* pattern,
                                      size_t pattern_size,
                                      size_t offset,
                                      size_t size,
                                      cl_uint waits,
                                      const cl_event* list,
                                      cl_event* event) {
  if (fault_is("unfillable")) return CL_OUT_OF_RESOURCES;
  if (fault_is("unfilled") && pattern_size < size) size -= pattern_size;
  return real.clEnqueueFillBuffer(queue, memory, pattern, pattern_size, offset, size, waits, list, event);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue,
                                      cl_mem from,
                                      cl_mem to,
                                      size_t from_offset,
                                      size_t to_offset,
                                      size_t size,
                                      cl_uint waits,
                                      const cl_event* list,
                                      cl_event* event) {
  move_slowly(size);
  return real.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, waits, list, event);
}

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info name, size_t room, void* value, size_t* size) {
  static const char title[] = "Tranche faulty device (test equipment)";
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  const void* answer = name == CL_LAYER_NAME ? (const void*)title : (const void*)&version;
  const size_t bytes = name == CL_LAYER_NAME ? sizeof title : sizeof version;
  if (name != CL_LAYER_NAME && name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (size != NULL) *size = bytes;
  if (value != NULL && room < bytes) return CL_INVALID_VALUE;
  if (value != NULL) memcpy(value, answer, bytes);
  return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint entries,
                                      const cl_icd_dispatch* target,
                                      cl_uint* entries_out,
                                      const cl_icd_dispatch** table_out) {
  const cl_uint known = sizeof(cl_icd_dispatch) / sizeof(void*);
  const cl_uint shared = entries < known ? entries : known;
  memcpy(&real, target, shared * sizeof(void*));
  ours = real;
  ours.clCreateBuffer = create_buffer;
  ours.clReleaseMemObject = release_buffer;
  ours.clCreateImage = create_image;
  ours.clGetDeviceInfo = device_info;
  ours.clSVMAlloc = svm_alloc;
  ours.clSVMFree = svm_free;
  ours.clEnqueueSVMMemFill = svm_fill;
  ours.clEnqueueFillImage = fill_image;
  ours.clEnqueueNDRangeKernel = launch;
  ours.clEnqueueReadBuffer = read_buffer;
  ours.clEnqueueFillBuffer = fill_buffer;
  ours.clEnqueueWriteBuffer = write_buffer;
  ours.clEnqueueCopyBuffer = copy_buffer;
  *entries_out = shared;
  *table_out = &ours;
  return CL_SUCCESS;
}
