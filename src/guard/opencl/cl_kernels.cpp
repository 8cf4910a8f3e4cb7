// SPDX-License-Identifier: Apache-2.0
// Kernels: which memory they were given, how long each launch takes, and when it may start.
#include <cstdlib>
#include <cstring>
#include <new>
#include <time.h>

#include "guard/host_clock.hpp"
#include "guard/opencl/cl_front.hpp"
#include "guard/opencl/object_table.hpp"
#include "guard/opencl/processor_share.hpp"

namespace tranche::guard::opencl {
namespace {

constexpr unsigned kArgumentsMax = 64;  // Memory objects beyond this index are not restored after a pause.
struct KernelRecord {
  MemObject* memory[kArgumentsMax] = {};
};

constinit ObjectTable<KernelRecord> kernels_table;  // Nothing has to run before the first call.
ObjectTable<KernelRecord>& kernels() {
  return kernels_table;
}

void note_argument(cl_kernel kernel, cl_uint index, MemObject* object) {
  if (index >= kArgumentsMax) return;
  if (!kernels().contains(kernel)) {
    if (object == nullptr) return;
    kernels().put(kernel, {});
  }
  kernels().change(kernel, [&](KernelRecord& record) {
    if (record.memory[index] == object) return;
    if (record.memory[index] != nullptr) record.memory[index]->argument_uses.fetch_sub(1);
    if (object != nullptr) object->argument_uses.fetch_add(1);
    record.memory[index] = object;
  });
}

cl_int CL_API_CALL set_argument(cl_kernel kernel, cl_uint index, size_t size, const void* value) {
  cl_mem handle = nullptr;
  if (size == sizeof handle && value != nullptr)
    std::memcpy(static_cast<void*>(&handle), value, sizeof handle);
  if (handle == nullptr || !is_live(handle)) {
    const cl_int status = real.clSetKernelArg(kernel, index, size, value);
    if (status == CL_SUCCESS) note_argument(kernel, index, nullptr);
    return status;
  }
  const RunningScope running;
  MemObject* object = wrapped(handle);
  const cl_int status = real.clSetKernelArg(kernel, index, size, static_cast<const void*>(&object->actual));
  if (status == CL_SUCCESS) note_argument(kernel, index, object);
  return status;
}

cl_int CL_API_CALL release_kernel(cl_kernel kernel) {
  cl_uint references = 0;
  real.clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof references, &references, nullptr);
  if (references == 1) {
    kernels().change(kernel, [](KernelRecord& record) {
      for (MemObject* object : record.memory)
        if (object != nullptr) object->argument_uses.fetch_sub(1);
    });
    kernels().erase(kernel);
  }
  return real.clReleaseKernel(kernel);
}

cl_kernel CL_API_CALL clone_kernel(cl_kernel source, cl_int* status) {
  const cl_kernel made = real.clCloneKernel(source, status);
  KernelRecord record;
  if (made != nullptr && kernels().find(source, record)) {
    for (MemObject* object : record.memory)
      if (object != nullptr) object->argument_uses.fetch_add(1);
    kernels().put(made, record);
  }
  return made;
}

// On a processor that is itself the device, tenants run side by side and others run too: there the time a
// launch took of the device is the processor time it used, over all units. Elsewhere the device's own
// timestamps tell.
struct LaunchMeasure {
  LaunchTicket ticket;
  std::uint32_t cpu_units = 0;       // Zero: not such a device.
  std::atomic<std::uint64_t> began;  // As the processor's share says; zero: it did not.
};

constinit ProcessorShare processor_share;  // Under processor_lock.
pthread_mutex_t processor_lock = PTHREAD_MUTEX_INITIALIZER;

std::uint64_t processor_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

void CL_CALLBACK launch_began(cl_event, cl_int, void* data) {
  const Lock lock(processor_lock);
  static_cast<LaunchMeasure*>(data)->began.store(processor_share.begins(processor_ns()));
}

std::uint64_t processor_time(std::uint64_t began) {
  const Lock lock(processor_lock);
  return processor_share.ended(processor_ns(), began);
}

std::uint64_t device_time(cl_event event) {
  cl_ulong start = 0, end = 0;
  if (real.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr) !=
          CL_SUCCESS ||
      real.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) != CL_SUCCESS)
    return 0;
  return end > start ? end - start : 0;
}

void CL_CALLBACK launch_done(cl_event event, cl_int status, void* data) {
  auto* measure = static_cast<LaunchMeasure*>(data);
  const std::uint64_t ended_at = monotonic_ns();
  std::uint64_t taken = status == CL_COMPLETE ? device_time(event) : 0;
  if (const std::uint64_t began = measure->began.load(); began != 0) {
    const std::uint64_t used = processor_time(began);
    if (taken != 0) taken = used / measure->cpu_units;
  }
  if (taken == 0) {
    measure_lost(measure->ticket);
  } else {
    // Where tenants run side by side, an end says nothing about the work of others in front.
    work_completed(measure->ticket, taken, measure->cpu_units == 0 ? ended_at : 0);
  }
  real.clReleaseEvent(event);
  std::free(measure);
}

struct CopyMeasure {
  CopyTicket ticket;
};

void CL_CALLBACK copy_done(cl_event event, cl_int status, void* data) {
  auto* measure = static_cast<CopyMeasure*>(data);
  const std::uint64_t taken = status == CL_COMPLETE ? device_time(event) : 0;
  taken != 0 ? copy_completed(measure->ticket, taken) : copy_unmeasured(measure->ticket);
  real.clReleaseEvent(event);
  std::free(measure);
}

// One launch through the gate. `launch` gets where to put the event, or null.
template <typename Launch>
cl_int gated(cl_command_queue queue, std::uint64_t key, cl_event* event, Launch&& launch) {
  const QueueRecord record = find_queue(queue);
  if (pass_inline(record.device, key, nullptr)) {
    const RunningScope running;
    return launch(event);
  }
  const LaunchTicket ticket = before_launch(record.device, key);
  if (ticket.ended) return CL_OUT_OF_RESOURCES;
  Command command;
  command.wanted = event;
  cl_int status = CL_SUCCESS;
  {
    const RunningScope running;
    status = launch(command.slot(ticket.measure));
  }
  if (status != CL_SUCCESS) {
    launch_failed(ticket);
  } else if (ticket.measure) {
    measure_launch(queue, command, ticket);
  }
  command.drop_own();
  return status;
}

cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue,
                                  cl_kernel kernel,
                                  cl_uint dimensions,
                                  const size_t* offset,
                                  const size_t* global,
                                  const size_t* local,
                                  cl_uint waits,
                                  const cl_event* list,
                                  cl_event* event) {
  std::uint64_t items = 1, group = 1;
  for (cl_uint i = 0; i < dimensions && i < 3; ++i) {
    if (global != nullptr) items *= global[i];
    if (local != nullptr) group *= local[i];
  }
  return gated(queue, kernel_key(kernel, items, group), event, [&](cl_event* where) {
    return real.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, waits, list, where);
  });
}

cl_int CL_API_CALL
enqueue_task(cl_command_queue queue, cl_kernel kernel, cl_uint waits, const cl_event* list, cl_event* event) {
  return gated(queue, kernel_key(kernel, 1, 1), event, [&](cl_event* where) {
    return real.clEnqueueTask(queue, kernel, waits, list, where);
  });
}

cl_int CL_API_CALL enqueue_native(cl_command_queue queue,
                                  void(CL_CALLBACK* function)(void*),
                                  void* arguments,
                                  size_t bytes,
                                  cl_uint count,
                                  const cl_mem* memory,
                                  const void** places,
                                  cl_uint waits,
                                  const cl_event* list,
                                  cl_event* event) {
  constexpr cl_uint most = 64;
  if (count > most) return CL_OUT_OF_HOST_MEMORY;
  const std::uint64_t key = kernel_key(reinterpret_cast<const void*>(function), bytes, 1);
  return gated(queue, key, event, [&](cl_event* where) {
    cl_mem below[most] = {};
    for (cl_uint i = 0; i < count && memory != nullptr; ++i) below[i] = unwrap(memory[i]);
    return real.clEnqueueNativeKernel(queue,
                                      function,
                                      arguments,
                                      bytes,
                                      count,
                                      memory == nullptr ? nullptr : below,
                                      places,
                                      waits,
                                      list,
                                      where);
  });
}

}  // namespace

void measure_launch(cl_command_queue queue, const Command& command, const LaunchTicket& ticket) {
  const cl_event event = command.event();
  auto* measure = static_cast<LaunchMeasure*>(std::malloc(sizeof(LaunchMeasure)));
  if (measure == nullptr) return measure_lost(ticket);
  new (measure) LaunchMeasure{ticket, find_queue(queue).cpu_units, {0}};
  real.clRetainEvent(event);  // The callback has a reference of its own.
  if (measure->cpu_units != 0) real.clSetEventCallback(event, CL_RUNNING, launch_began, measure);
  if (real.clSetEventCallback(event, CL_COMPLETE, launch_done, measure) != CL_SUCCESS) {
    launch_done(event, CL_INVALID_EVENT, measure);
    return;
  }
  real.clFlush(queue);  // A measure that is never submitted would never come.
}

void measure_copy(const Command& command, const CopyTicket& ticket) {
  if (ticket.bytes < kMeasuredCopyBytes) return copy_unmeasured(ticket);
  const cl_event event = command.event();
  auto* measure = static_cast<CopyMeasure*>(std::malloc(sizeof(CopyMeasure)));
  if (measure == nullptr) return copy_unmeasured(ticket);
  measure->ticket = ticket;
  real.clRetainEvent(event);
  if (real.clSetEventCallback(event, CL_COMPLETE, copy_done, measure) != CL_SUCCESS)
    copy_done(event, CL_INVALID_EVENT, measure);
}

void forget_argument(const MemObject* object) {
  kernels().for_each([&](const void*, KernelRecord& record) {
    for (MemObject*& argument : record.memory)
      if (argument == object) argument = nullptr;
  });
}

void refresh_arguments() {
  kernels().for_each([](const void* key, KernelRecord& record) {
    auto* kernel = static_cast<cl_kernel>(const_cast<void*>(key));
    for (cl_uint index = 0; index < kArgumentsMax; ++index)
      if (record.memory[index] != nullptr)
        real.clSetKernelArg(
            kernel, index, sizeof(cl_mem), static_cast<const void*>(&record.memory[index]->actual));
  });
}

void install_kernels(cl_icd_dispatch& table) {
  table.clSetKernelArg = set_argument;
  table.clReleaseKernel = release_kernel;
  table.clCloneKernel = clone_kernel;
  table.clEnqueueNDRangeKernel = enqueue_kernel;
  table.clEnqueueTask = enqueue_task;
  table.clEnqueueNativeKernel = enqueue_native;
}

}  // namespace tranche::guard::opencl
