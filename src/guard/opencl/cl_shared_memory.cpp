// SPDX-License-Identifier: Apache-2.0
// Shared virtual memory: charged like buffers; its addresses are the program's, so a pause cannot move it.
#include <cstdlib>
#include <cstring>

#include "guard/opencl/cl_front.hpp"
#include "guard/opencl/object_table.hpp"

namespace tranche::guard::opencl {
namespace {

struct SharedRecord {
  std::uint64_t bytes = 0;
  std::uint32_t devices[kContextDevicesMax] = {};
  std::uint32_t device_count = 0;
};

constinit ObjectTable<SharedRecord> allocations_table;  // Nothing has to run before the first call.
ObjectTable<SharedRecord>& allocations() {
  return allocations_table;
}

void give_back(const void* pointer) {
  SharedRecord record;
  if (!allocations().find(pointer, record)) return;
  allocations().erase(pointer);
  for (std::uint32_t i = 0; i < record.device_count; ++i) release(record.devices[i], record.bytes);
}

cl_int fill(cl_command_queue queue,
            void* pointer,
            std::uint64_t bytes,
            cl_uint waits,
            const cl_event* list,
            cl_event* event) {
  const cl_uchar none = 0;  // As when buffers are freed: see cl_zero.cpp.
  return real.clEnqueueSVMMemFill(queue, pointer, &none, sizeof none, bytes, waits, list, event);
}

bool fill_and_wait(cl_context context, void* pointer, std::uint64_t bytes) {
  const cl_command_queue queue = take_own_queue(context);
  const bool filled = queue != nullptr && fill(queue, pointer, bytes, 0, nullptr, nullptr) == CL_SUCCESS &&
                      real.clFinish(queue) == CL_SUCCESS;
  drop_own_queue(queue);
  return filled;
}

void* CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t bytes, cl_uint alignment) {
  MemObject account;  // Only to charge the devices of the context.
  ContextRecord found;
  if (!find_context(context, found)) return real.clSVMAlloc(context, flags, bytes, alignment);
  account.device_count = found.device_count;
  std::memcpy(account.devices, found.devices, sizeof found.devices);
  if (!charge(&account, bytes, "clSVMAlloc")) return nullptr;
  void* pointer = real.clSVMAlloc(context, flags, bytes, alignment);
  const bool must_zero = pointer != nullptr && must_zero_new(context);
  if (must_zero && !fill_and_wait(context, pointer, bytes)) {
    real.clSVMFree(context, pointer);
    pointer = nullptr;
  }
  if (pointer == nullptr) {
    uncharge(&account);
    return nullptr;
  }
  SharedRecord record;
  record.bytes = bytes;
  record.device_count = account.device_count;
  std::memcpy(record.devices, account.devices, sizeof record.devices);
  allocations().put(pointer, record);
  return pointer;
}

// True when it must be zeroed, which then is paid for.
bool pay_if_it_leaves_contents(const void* pointer, SharedRecord& record) {
  if (!allocations().find(pointer, record) ||
      !must_zero_old(record.devices, record.device_count, record.bytes))
    return false;
  copy_unmeasured(before_copy(record.devices[0], record.bytes));
  return true;
}

// The call waits for nothing by itself, so whoever frees has made sure that nobody uses the bytes any more.
void zero(cl_context context, void* pointer) {
  SharedRecord record;
  if (pay_if_it_leaves_contents(pointer, record) && !fill_and_wait(context, pointer, record.bytes))
    report_left(record.devices, record.device_count, record.bytes);
}

// Behind what the program's list names, and behind each other; `last` is what the free then waits for.
void zero_in_queue(cl_command_queue queue,
                   cl_uint count,
                   void* const* pointers,
                   cl_uint waits,
                   const cl_event* list,
                   cl_event& last) {
  for (cl_uint i = 0; pointers != nullptr && i < count; ++i) {
    SharedRecord record;
    if (!pay_if_it_leaves_contents(pointers[i], record)) continue;
    const bool first = last == nullptr;
    cl_event filled = nullptr;
    if (fill(queue, pointers[i], record.bytes, first ? waits : 1, first ? list : &last, &filled) !=
        CL_SUCCESS) {
      report_left(record.devices, record.device_count, record.bytes);
      continue;
    }
    if (!first) real.clReleaseEvent(last);
    last = filled;
  }
}

void CL_API_CALL svm_free(cl_context context, void* pointer) {
  zero(context, pointer);
  real.clSVMFree(context, pointer);
  give_back(pointer);
}

struct FreeRequest {
  void(CL_CALLBACK* call)(cl_command_queue, cl_uint, void*[], void*) = nullptr;
  void* data = nullptr;
};

// Runs when the queue gets there: the program's own function, or ours, frees.
void CL_CALLBACK free_in_queue(cl_command_queue queue, cl_uint count, void* pointers[], void* data) {
  auto* request = static_cast<FreeRequest*>(data);
  for (cl_uint i = 0; i < count; ++i) give_back(pointers[i]);
  if (request->call != nullptr) {
    request->call(queue, count, pointers, request->data);
  } else {
    for (cl_uint i = 0; i < count; ++i) real.clSVMFree(find_queue(queue).context, pointers[i]);
  }
  std::free(request);
}

cl_int CL_API_CALL enqueue_svm_free(cl_command_queue queue,
                                    cl_uint count,
                                    void* pointers[],
                                    void(CL_CALLBACK* call)(cl_command_queue, cl_uint, void*[], void*),
                                    void* data,
                                    cl_uint waits,
                                    const cl_event* list,
                                    cl_event* event) {
  auto* request = static_cast<FreeRequest*>(std::malloc(sizeof(FreeRequest)));
  if (request == nullptr) return CL_OUT_OF_HOST_MEMORY;
  *request = {call, data};
  cl_event zeroed = nullptr;
  zero_in_queue(queue, count, pointers, waits, list, zeroed);
  const cl_int status = real.clEnqueueSVMFree(queue,
                                              count,
                                              pointers,
                                              free_in_queue,
                                              request,
                                              zeroed == nullptr ? waits : 1,
                                              zeroed == nullptr ? list : &zeroed,
                                              event);
  if (zeroed != nullptr) real.clReleaseEvent(zeroed);
  if (status != CL_SUCCESS) std::free(request);
  return status;
}

cl_int CL_API_CALL svm_copy(cl_command_queue queue,
                            cl_bool blocking,
                            void* to,
                            const void* from,
                            size_t bytes,
                            cl_uint waits,
                            const cl_event* list,
                            cl_event* event) {
  return gated_copy(queue, bytes, blocking_of(blocking), event, [&](cl_event* where) {
    return real.clEnqueueSVMMemcpy(queue, CL_FALSE, to, from, bytes, waits, list, where);
  });
}

cl_int CL_API_CALL svm_fill(cl_command_queue queue,
                            void* to,
                            const void* pattern,
                            size_t pattern_bytes,
                            size_t bytes,
                            cl_uint waits,
                            const cl_event* list,
                            cl_event* event) {
  return gated_copy(queue, bytes, Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueSVMMemFill(queue, to, pattern, pattern_bytes, bytes, waits, list, where);
  });
}

cl_int CL_API_CALL svm_map(cl_command_queue queue,
                           cl_bool blocking,
                           cl_map_flags flags,
                           void* pointer,
                           size_t bytes,
                           cl_uint waits,
                           const cl_event* list,
                           cl_event* event) {
  return gated_copy(queue, bytes, blocking_of(blocking), event, [&](cl_event* where) {
    return real.clEnqueueSVMMap(queue, CL_FALSE, flags, pointer, bytes, waits, list, where);
  });
}

cl_int CL_API_CALL svm_migrate(cl_command_queue queue,
                               cl_uint count,
                               const void** pointers,
                               const size_t* sizes,
                               cl_mem_migration_flags flags,
                               cl_uint waits,
                               const cl_event* list,
                               cl_event* event) {
  std::uint64_t bytes = 0;
  for (cl_uint i = 0; sizes != nullptr && i < count; ++i) bytes += sizes[i];
  return gated_copy(queue, bytes, Blocking::kNo, event, [&](cl_event* where) {
    return real.clEnqueueSVMMigrateMem(queue, count, pointers, sizes, flags, waits, list, where);
  });
}

}  // namespace

void install_shared_memory(cl_icd_dispatch& table) {
  table.clSVMAlloc = svm_alloc;
  table.clSVMFree = svm_free;
  table.clEnqueueSVMFree = enqueue_svm_free;
  table.clEnqueueSVMMemcpy = svm_copy;
  table.clEnqueueSVMMemFill = svm_fill;
  table.clEnqueueSVMMap = svm_map;
  table.clEnqueueSVMMigrateMem = svm_migrate;
}

}  // namespace tranche::guard::opencl
