// SPDX-License-Identifier: Apache-2.0
// What does a program see of platforms, devices, contexts and queues? A device of the size of its slice, and
// queues without the timestamps it did not ask for.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "guard/opencl/cl_front.hpp"
#include "guard/opencl/object_table.hpp"

namespace tranche::guard::opencl {
namespace {

constexpr cl_device_info kDeviceUuid = 0x106A;           // CL_DEVICE_UUID_KHR
constexpr cl_device_info kFreeMemoryAmd = 0x4039;        // CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, in KiB
constexpr cl_command_queue_info kQueueArray = 0x1098;    // CL_QUEUE_PROPERTIES_ARRAY
constexpr cl_device_info kExtensionsVersioned = 0x1060;  // CL_DEVICE_EXTENSIONS_WITH_VERSION
// Commands recorded once and replayed by handles the front would not see.
constexpr char kHiddenExtension[] = "cl_khr_command_buffer";

struct DeviceRecord {
  std::uint32_t place = kNoDevice;
};

constinit ObjectTable<DeviceRecord, 64> devices_table;  // Nothing has to run before the first call.
ObjectTable<DeviceRecord, 64>& devices() {
  return devices_table;
}
constinit ObjectTable<ContextRecord, 256> contexts_table;  // Nothing has to run before the first call.
ObjectTable<ContextRecord, 256>& contexts() {
  return contexts_table;
}
constinit ObjectTable<QueueRecord> queues_table;  // Nothing has to run before the first call.
ObjectTable<QueueRecord>& queues() {
  return queues_table;
}
std::uint32_t devices_seen = 0;
pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

bool same_uuid(cl_device_id device, const char* wanted) {
  unsigned char bytes[16];
  if (real.clGetDeviceInfo(device, kDeviceUuid, sizeof bytes, bytes, nullptr) != CL_SUCCESS) return false;
  char text[40];
  char* at = text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    at += std::snprintf(at, 3, "%02x", bytes[i]);
  }
  const char* plain = std::strncmp(wanted, "GPU-", 4) == 0 ? wanted + 4 : wanted;
  return std::strncmp(plain, text, 36) == 0;
}

std::uint32_t place_of_new(cl_device_id device) {
  const ControlRegion* control = control_region();
  if (control == nullptr) return kNoDevice;
  const std::uint32_t count = control->device_count.load(std::memory_order_relaxed);
  for (std::uint32_t place = 0; place < count && place < kDevicesMax; ++place)
    if (control->devices[place].uuid[0] != 0 && same_uuid(device, control->devices[place].uuid)) return place;
  const std::uint32_t place = devices_seen++;
  const bool offered = place < count && place < kDevicesMax &&
                       control->devices[place].vram_limit.load(std::memory_order_relaxed) != 0;
  return offered ? place : kNoDevice;
}

template <typename Value>
cl_int answer(const Value& value, size_t room, void* out, size_t* size) {
  if (size != nullptr) *size = sizeof value;
  if (out == nullptr) return CL_SUCCESS;
  if (room < sizeof value) return CL_INVALID_VALUE;
  std::memcpy(out, &value, sizeof value);
  return CL_SUCCESS;
}

// Every word that begins so becomes spaces: the length stays what the program was told.
void blank_words(char* text, const char* beginning) {
  for (char* at = text; (at = std::strstr(at, beginning)) != nullptr;)
    while (*at != 0 && *at != ' ') *at++ = ' ';
}

cl_int CL_API_CALL
get_devices(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id* out, cl_uint* count) {
  constexpr cl_uint most = 64;
  cl_device_id all[most];
  cl_uint found = 0;
  if (attach() != Attachment::kAttached) {
    if (count != nullptr) *count = 0;
    return CL_DEVICE_NOT_FOUND;
  }
  const cl_int status = real.clGetDeviceIDs(platform, type, most, all, &found);
  if (status != CL_SUCCESS) return real.clGetDeviceIDs(platform, type, room, out, count);
  cl_uint kept = 0;
  for (cl_uint i = 0; i < found && i < most; ++i)
    if (device_of(all[i]) != kNoDevice) all[kept++] = all[i];
  if (out != nullptr && room == 0) return CL_INVALID_VALUE;
  for (cl_uint i = 0; out != nullptr && i < kept && i < room; ++i) out[i] = all[i];
  if (count != nullptr) *count = kept;
  return kept == 0 ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
}

cl_int CL_API_CALL
get_device_info(cl_device_id device, cl_device_info name, size_t room, void* out, size_t* size) {
  const cl_int status = real.clGetDeviceInfo(device, name, room, out, size);
  if (status != CL_SUCCESS) return status;
  const std::uint32_t place = device_of(device);
  switch (name) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: {
      cl_ulong bytes = 0;
      real.clGetDeviceInfo(device, name, sizeof bytes, &bytes, nullptr);
      return answer<cl_ulong>(visible_total(place, bytes), room, out, size);
    }
    case kFreeMemoryAmd:
      if (out != nullptr && room >= sizeof(size_t)) {
        auto* values = static_cast<size_t*>(out);
        values[0] = visible_free(place, values[0] << 10) >> 10;
      }
      return status;
    case CL_DEVICE_EXTENSIONS:
      if (out != nullptr) blank_words(static_cast<char*>(out), kHiddenExtension);
      return status;
    case kExtensionsVersioned: {
      auto* list = static_cast<cl_name_version*>(out);
      for (size_t i = 0; out != nullptr && i < room / sizeof *list; ++i)
        if (std::strncmp(list[i].name, kHiddenExtension, sizeof kHiddenExtension - 1) == 0)
          std::strcpy(list[i].name, "cl_tranche_guard");
      return status;
    }
    default:
      return status;
  }
}

bool is_processor(cl_device_id device) {
  cl_device_type type = 0;
  real.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
  return (type & CL_DEVICE_TYPE_CPU) != 0;
}

cl_context remember_context(cl_context context) {
  if (context == nullptr) return context;
  ContextRecord record;
  record.context = context;
  size_t bytes = 0;
  real.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof record.handles, record.handles, &bytes);
  record.handle_count = static_cast<std::uint32_t>(bytes / sizeof(cl_device_id));
  for (std::uint32_t i = 0; i < record.handle_count; ++i) {
    const std::uint32_t place = device_of(record.handles[i]);
    bool known = place == kNoDevice;
    for (std::uint32_t j = 0; j < record.device_count; ++j) known = known || record.devices[j] == place;
    if (!known) record.devices[record.device_count++] = place;
  }
  record.program_references = 1;
  record.on_processor = std::all_of(record.handles, record.handles + record.handle_count, is_processor);
  contexts().put(context, record);
  start_pause_watch();
  return context;
}

cl_context CL_API_CALL create_context(const cl_context_properties* properties,
                                      cl_uint count,
                                      const cl_device_id* list,
                                      void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                                      void* data,
                                      cl_int* status) {
  if (attach() != Attachment::kAttached) {
    if (status != nullptr) *status = CL_DEVICE_NOT_AVAILABLE;
    return nullptr;
  }
  for (cl_uint i = 0; list != nullptr && i < count; ++i) {
    if (device_of(list[i]) != kNoDevice) continue;
    if (status != nullptr) *status = CL_DEVICE_NOT_AVAILABLE;
    return nullptr;
  }
  return remember_context(real.clCreateContext(properties, count, list, notify, data, status));
}

// By type: through the list of devices of the slice, never the driver's own choice.
cl_context CL_API_CALL
create_context_from_type(const cl_context_properties* properties,
                         cl_device_type type,
                         void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*),
                         void* data,
                         cl_int* status) {
  cl_platform_id platform = nullptr;
  for (const cl_context_properties* at = properties; at != nullptr && *at != 0; at += 2)
    if (*at == CL_CONTEXT_PLATFORM) platform = reinterpret_cast<cl_platform_id>(at[1]);
  if (platform == nullptr) real.clGetPlatformIDs(1, &platform, nullptr);
  cl_device_id list[kContextDevicesMax];
  cl_uint count = 0;
  const cl_int found = get_devices(platform, type, kContextDevicesMax, list, &count);
  if (found != CL_SUCCESS) {
    if (status != nullptr) *status = found;
    return nullptr;
  }
  return create_context(properties, count, list, notify, data, status);
}

cl_int CL_API_CALL retain_context(cl_context context) {
  contexts().change(context, [](ContextRecord& record) { ++record.program_references; });
  return real.clRetainContext(context);
}

cl_int CL_API_CALL release_context(cl_context context) {
  cl_command_queue own = nullptr;
  bool last = false;
  contexts().change(context, [&](ContextRecord& record) {
    last = --record.program_references == 0;
    if (last) own = record.own_queue;
    if (last) record.own_queue = nullptr;
  });
  if (own != nullptr) real.clReleaseCommandQueue(own);  // It would keep the context alive.
  return real.clReleaseContext(context);
}

cl_command_queue remember_queue(cl_command_queue queue,
                                cl_context context,
                                cl_device_id device,
                                cl_command_queue_properties wanted,
                                const cl_queue_properties* list) {
  if (queue == nullptr) return queue;
  QueueRecord record;
  record.context = context;
  record.device = device_of(device);
  if (is_processor(device))
    real.clGetDeviceInfo(
        device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof record.cpu_units, &record.cpu_units, nullptr);
  record.shows_profiling = (wanted & CL_QUEUE_PROFILING_ENABLE) != 0;
  record.in_order = (wanted & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0;
  for (; list != nullptr && record.property_count < 16; ++list) {
    record.properties[record.property_count++] = *list;
    if (*list == 0) break;
  }
  queues().put(queue, record);
  return queue;
}

cl_command_queue CL_API_CALL create_queue(cl_context context,
                                          cl_device_id device,
                                          cl_command_queue_properties properties,
                                          cl_int* status) {
  return remember_queue(
      real.clCreateCommandQueue(context, device, properties | CL_QUEUE_PROFILING_ENABLE, status),
      context,
      device,
      properties,
      nullptr);
}

cl_command_queue CL_API_CALL create_queue_with(cl_context context,
                                               cl_device_id device,
                                               const cl_queue_properties* properties,
                                               cl_int* status) {
  cl_queue_properties list[18] = {};
  cl_command_queue_properties wanted = 0;
  unsigned used = 0;
  for (const cl_queue_properties* at = properties; at != nullptr && *at != 0 && used + 4 < 18; at += 2) {
    if (*at == CL_QUEUE_PROPERTIES) wanted = at[1];
    if (*at == CL_QUEUE_PROPERTIES) continue;
    list[used++] = at[0];
    list[used++] = at[1];
  }
  list[used++] = CL_QUEUE_PROPERTIES;
  list[used++] = wanted | ((wanted & CL_QUEUE_ON_DEVICE) != 0 ? 0 : CL_QUEUE_PROFILING_ENABLE);
  return remember_queue(real.clCreateCommandQueueWithProperties(context, device, list, status),
                        context,
                        device,
                        wanted,
                        properties);
}

cl_int CL_API_CALL release_queue(cl_command_queue queue) {
  cl_uint references = 0;
  real.clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, nullptr);
  if (references == 1) queues().erase(queue);
  return real.clReleaseCommandQueue(queue);
}

cl_int CL_API_CALL
get_queue_info(cl_command_queue queue, cl_command_queue_info name, size_t room, void* out, size_t* size) {
  const cl_int status = real.clGetCommandQueueInfo(queue, name, room, out, size);
  QueueRecord record;
  if (status != CL_SUCCESS || !queues().find(queue, record)) return status;
  if (name == CL_QUEUE_PROPERTIES && out != nullptr && !record.shows_profiling)
    *static_cast<cl_command_queue_properties*>(out) &=
        ~static_cast<cl_command_queue_properties>(CL_QUEUE_PROFILING_ENABLE);
  if (name == kQueueArray) {
    const size_t bytes = record.property_count * sizeof(cl_queue_properties);
    if (size != nullptr) *size = bytes;
    if (out != nullptr && room < bytes) return CL_INVALID_VALUE;
    if (out != nullptr) std::memcpy(out, record.properties, bytes);
  }
  return status;
}

cl_int CL_API_CALL
get_profiling(cl_event event, cl_profiling_info name, size_t room, void* out, size_t* size) {
  cl_command_queue queue = nullptr;
  QueueRecord record;
  real.clGetEventInfo(
      event, CL_EVENT_COMMAND_QUEUE, sizeof(cl_command_queue), static_cast<void*>(&queue), nullptr);
  if (queues().find(queue, record) && !record.shows_profiling) return CL_PROFILING_INFO_NOT_AVAILABLE;
  return real.clGetEventProfilingInfo(event, name, room, out, size);
}

// Entry points outside the table that make or use memory would go around the front: they are not offered.
bool offered(const char* name) {
  return name != nullptr && std::strstr(name, "CommandBuffer") == nullptr &&
         std::strncmp(name, "clCommand", 9) != 0 && std::strstr(name, "MemAllocINTEL") == nullptr &&
         std::strstr(name, "BufferWithPropertiesINTEL") == nullptr &&
         std::strstr(name, "ExternalMemory") == nullptr;
}

void* CL_API_CALL get_extension(const char* name) {
  return offered(name) ? real.clGetExtensionFunctionAddress(name) : nullptr;
}

void* CL_API_CALL get_extension_for(cl_platform_id platform, const char* name) {
  return offered(name) ? real.clGetExtensionFunctionAddressForPlatform(platform, name) : nullptr;
}

cl_int CL_API_CALL create_sub_devices(cl_device_id parent,
                                      const cl_device_partition_property* properties,
                                      cl_uint room,
                                      cl_device_id* out,
                                      cl_uint* count) {
  cl_uint made = 0;
  const cl_int status = real.clCreateSubDevices(parent, properties, room, out, &made);
  for (cl_uint i = 0; status == CL_SUCCESS && out != nullptr && i < made && i < room; ++i)
    devices().put(out[i], {device_of(parent)});  // A part of a device counts as the device.
  if (count != nullptr) *count = made;
  return status;
}

}  // namespace

std::uint32_t device_of(cl_device_id device) {
  DeviceRecord record;
  if (devices().find(device, record)) return record.place;
  const Lock lock(device_lock);
  if (devices().find(device, record)) return record.place;
  record.place = place_of_new(device);
  devices().put(device, record);
  return record.place;
}

bool find_context(cl_context context, ContextRecord& out) {
  return contexts().find(context, out);
}

QueueRecord find_queue(cl_command_queue queue) {
  QueueRecord record;
  queues().find(queue, record);
  return record;
}

// With a reference for whoever takes it: the program may let go of the context while the queue has work.
cl_command_queue take_own_queue(cl_context context) {
  ContextRecord record;
  if (!contexts().find(context, record) || record.handle_count == 0) return nullptr;
  cl_command_queue taken = nullptr;
  const auto take_kept = [&](ContextRecord& now) {
    taken = now.own_queue;
    if (taken != nullptr) real.clRetainCommandQueue(taken);
  };
  contexts().change(context, take_kept);
  if (taken != nullptr) return taken;
  cl_int status = CL_SUCCESS;
  const cl_command_queue made =
      real.clCreateCommandQueue(context, record.handles[0], CL_QUEUE_PROFILING_ENABLE, &status);
  if (made == nullptr) return nullptr;
  contexts().change(context, [&](ContextRecord& now) {
    if (now.program_references == 0) return;  // The program let go of it: do not keep it alive.
    if (now.own_queue == nullptr) now.own_queue = made;
    take_kept(now);
  });
  if (taken == nullptr) return made;
  if (taken != made) real.clReleaseCommandQueue(made);
  return taken;
}

void let_go_of_queue(cl_command_queue queue) {
  release_queue(queue);
}

void drop_own_queue(cl_command_queue queue) {
  if (queue != nullptr) real.clReleaseCommandQueue(queue);
}

void for_each_queue(cl_context context, void (*visit)(cl_command_queue, void*), void* data) {
  queues().for_each([&](const void* key, const QueueRecord& record) {
    if (record.context == context || context == nullptr)
      visit(static_cast<cl_command_queue>(const_cast<void*>(key)), data);
  });
}

void install_views(cl_icd_dispatch& table) {
  table.clGetDeviceIDs = get_devices;
  table.clGetDeviceInfo = get_device_info;
  table.clCreateContext = create_context;
  table.clCreateContextFromType = create_context_from_type;
  table.clRetainContext = retain_context;
  table.clReleaseContext = release_context;
  table.clCreateCommandQueue = create_queue;
  table.clCreateCommandQueueWithProperties = create_queue_with;
  table.clReleaseCommandQueue = release_queue;
  table.clGetCommandQueueInfo = get_queue_info;
  table.clGetEventProfilingInfo = get_profiling;
  table.clGetExtensionFunctionAddress = get_extension;
  table.clGetExtensionFunctionAddressForPlatform = get_extension_for;
  table.clCreateSubDevices = create_sub_devices;
}

}  // namespace tranche::guard::opencl
