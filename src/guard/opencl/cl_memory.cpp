// SPDX-License-Identifier: Apache-2.0
// Buffers, sub-buffers and pipes: what they cost, who holds them, and when they really go.
#include <cstdlib>
#include <cstring>
#include <new>

#include "guard/opencl/cl_front.hpp"
#include "guard/opencl/object_table.hpp"

namespace tranche::guard::opencl {

pthread_mutex_t object_lock = PTHREAD_MUTEX_INITIALIZER;  // NOLINT

namespace {

struct Nothing {};
MemObject* all_objects = nullptr;  // Under object_lock.

constinit ObjectTable<Nothing, 4096> live_table;  // Nothing has to run before the first call.
ObjectTable<Nothing, 4096>& live() {
  return live_table;
}

// What is to be given back when the driver really destroys an object, which may be long after its last
// release.
struct Charge {
  std::uint64_t bytes = 0;
  std::uint32_t devices[kContextDevicesMax] = {};
  std::uint32_t device_count = 0;
  Destructor* destructors = nullptr;
  cl_mem program_handle = nullptr;
};

void give_back(const Charge& charge) {
  for (std::uint32_t i = 0; i < charge.device_count; ++i) release(charge.devices[i], charge.bytes);
}

void CL_CALLBACK driver_destroyed(cl_mem, void* data) {
  auto* charge = static_cast<Charge*>(data);
  give_back(*charge);
  while (charge->destructors != nullptr) {
    Destructor* next = charge->destructors->next;
    charge->destructors->call(charge->program_handle, charge->destructors->data);
    std::free(charge->destructors);
    charge->destructors = next;
  }
  std::free(charge);
  departure_ends();
}

void unlink(MemObject* object) {
  live().erase(object);
  const Lock lock(object_lock);
  (object->previous == nullptr ? all_objects : object->previous->next) = object->next;
  if (object->next != nullptr) object->next->previous = object->previous;
}

void fail(cl_int* status, cl_int code) {
  if (status != nullptr) *status = code;
}

cl_mem make_buffer(cl_context context,
                   cl_mem_flags flags,
                   size_t size,
                   void* host,
                   cl_int* status,
                   const cl_mem_properties* properties,
                   const char* api) {
  MemObject* object = new_object(context, MemKind::kBuffer);
  if (object == nullptr) {
    fail(status, CL_OUT_OF_HOST_MEMORY);
    return nullptr;
  }
  object->flags = flags;
  object->host_pointer = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : nullptr;
  object->size = size;
  if (!charge(object, size, api)) {
    discard(object);
    fail(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    return nullptr;
  }
  cl_int result = CL_SUCCESS;
  const RunningScope running;
  const cl_mem actual = properties == nullptr ? real.clCreateBuffer(context, flags, size, host, &result)
                                              : real.clCreateBufferWithProperties(
                                                    context, properties, flags, size, host, &result);
  object->actual = actual;
  const bool clean = actual != nullptr && zero_new(object);
  fail(status, actual != nullptr && !clean ? CL_MEM_OBJECT_ALLOCATION_FAILURE : result);
  if (!clean) {
    if (actual != nullptr) real.clReleaseMemObject(actual);
    uncharge(object);
    discard(object);
    return nullptr;
  }
  adopt(object, actual);
  return reinterpret_cast<cl_mem>(object);
}

cl_mem CL_API_CALL
create_buffer(cl_context context, cl_mem_flags flags, size_t size, void* host, cl_int* status) {
  return make_buffer(context, flags, size, host, status, nullptr, "clCreateBuffer");
}

cl_mem CL_API_CALL create_buffer_with(cl_context context,
                                      const cl_mem_properties* properties,
                                      cl_mem_flags flags,
                                      size_t size,
                                      void* host,
                                      cl_int* status) {
  return make_buffer(context, flags, size, host, status, properties, "clCreateBufferWithProperties");
}

// Shares its parent's memory: costs nothing, and keeps the parent.
cl_mem CL_API_CALL create_sub_buffer(
    cl_mem handle, cl_mem_flags flags, cl_buffer_create_type type, const void* info, cl_int* status) {
  MemObject* parent = wrapped(handle);
  const RunningScope running;
  const cl_mem actual = real.clCreateSubBuffer(unwrap(handle), flags, type, info, status);
  if (actual == nullptr || parent == nullptr) return actual;
  MemObject* object = new_object(parent->context, MemKind::kSubBuffer);
  if (object == nullptr) return nullptr;
  object->flags = flags;
  object->parent = parent;
  object->region = *static_cast<const cl_buffer_region*>(info);
  object->size = object->region.size;
  parent->references.fetch_add(1);
  adopt(object, actual);
  return reinterpret_cast<cl_mem>(object);
}

cl_mem CL_API_CALL create_pipe(cl_context context,
                               cl_mem_flags flags,
                               cl_uint packet,
                               cl_uint count,
                               const cl_pipe_properties* properties,
                               cl_int* status) {
  MemObject* object = new_object(context, MemKind::kPipe);
  if (object == nullptr || !charge(object, std::uint64_t{packet} * count, "clCreatePipe")) {
    if (object != nullptr) discard(object);
    fail(status, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    return nullptr;
  }
  const RunningScope running;
  const cl_mem actual = real.clCreatePipe(context, flags, packet, count, properties, status);
  if (actual == nullptr) {
    uncharge(object);
    discard(object);
    return nullptr;
  }
  adopt(object, actual);
  return reinterpret_cast<cl_mem>(object);
}

cl_int CL_API_CALL retain_memory(cl_mem handle) {
  MemObject* object = wrapped(handle);
  if (object == nullptr) return real.clRetainMemObject(handle);
  object->references.fetch_add(1);
  return CL_SUCCESS;
}

// From here on the driver decides when the object is really gone; the charge waits for that.
void follow_until_destroyed(MemObject* object) {
  if (object->charged == 0 && object->destructors == nullptr) return;
  auto* charge = static_cast<Charge*>(std::malloc(sizeof(Charge)));
  if (charge == nullptr) {
    uncharge(object);
    return;
  }
  new (charge) Charge;
  charge->bytes = object->charged;
  charge->device_count = object->charged == 0 ? 0 : object->device_count;
  std::memcpy(charge->devices, object->devices, sizeof charge->devices);
  charge->destructors = object->destructors;
  charge->program_handle = reinterpret_cast<cl_mem>(object);
  departure_begins();
  if (real.clSetMemObjectDestructorCallback(object->actual, driver_destroyed, charge) != CL_SUCCESS)
    driver_destroyed(object->actual, charge);
}

// Nobody can zero a pipe; buffers and images that are the program's own memory hold nothing of the device's.
bool leaves_contents(const MemObject* object) {
  const bool holds = object->kind != MemKind::kSubBuffer && object->kind != MemKind::kForeign;
  return holds && object->charged != 0 && object->host_pointer == nullptr &&
         must_zero_old(object->devices, object->device_count, object->charged);
}

// Returns the parent, whose reference it held.
MemObject* destroy(MemObject* object) {
  const bool leaves = leaves_contents(object);
  const bool zero = leaves && object->kind != MemKind::kPipe;
  const CopyTicket ticket = zero ? pay_for_zeroing(object) : CopyTicket{};
  const RunningScope running;
  unlink(object);
  follow_until_destroyed(object);
  if (object->argument_uses.load() != 0) forget_argument(object);
  MemObject* parent = object->parent;
  if (leaves && !zero) report_left(object->devices, object->device_count, object->charged);
  if (zero) {
    zero_and_release(object, ticket);
  } else {
    real.clReleaseMemObject(object->actual);
  }
  discard(object);
  return parent;
}

cl_int CL_API_CALL release_memory(cl_mem handle) {
  MemObject* object = wrapped(handle);
  if (object == nullptr) return real.clReleaseMemObject(handle);
  while (object != nullptr && object->references.fetch_sub(1) == 1) object = destroy(object);
  return CL_SUCCESS;
}

cl_int CL_API_CALL get_memory_info(cl_mem handle, cl_mem_info name, size_t room, void* out, size_t* size) {
  const RunningScope running;
  const cl_int status = real.clGetMemObjectInfo(unwrap(handle), name, room, out, size);
  const MemObject* object = wrapped(handle);
  if (status != CL_SUCCESS || object == nullptr || out == nullptr) return status;
  if (name == CL_MEM_REFERENCE_COUNT) *static_cast<cl_uint*>(out) = object->references.load();
  if (name == CL_MEM_ASSOCIATED_MEMOBJECT)
    *static_cast<cl_mem*>(out) = object->parent == nullptr ? program_handle(*static_cast<cl_mem*>(out))
                                                           : reinterpret_cast<cl_mem>(object->parent);
  return status;
}

cl_int CL_API_CALL set_destructor(cl_mem handle, void(CL_CALLBACK* call)(cl_mem, void*), void* data) {
  MemObject* object = wrapped(handle);
  if (object == nullptr) return real.clSetMemObjectDestructorCallback(handle, call, data);
  if (call == nullptr) return CL_INVALID_VALUE;
  auto* entry = static_cast<Destructor*>(std::malloc(sizeof(Destructor)));
  if (entry == nullptr) return CL_OUT_OF_HOST_MEMORY;
  const Lock lock(object_lock);
  *entry = {call, data, object->destructors};  // Newest first, as the API says.
  object->destructors = entry;
  return CL_SUCCESS;
}

}  // namespace

bool is_live(const void* handle) {
  return live().contains(handle);
}

cl_mem program_handle(cl_mem actual) {
  if (actual == nullptr) return nullptr;
  const Lock lock(object_lock);
  for (MemObject* object = all_objects; object != nullptr; object = object->next)
    if (object->actual == actual) return reinterpret_cast<cl_mem>(object);
  return actual;
}

MemObject* first_object() {
  return all_objects;
}

MemObject* new_object(cl_context context, MemKind kind) {
  void* memory = std::malloc(sizeof(MemObject));
  if (memory == nullptr) return nullptr;
  auto* object = new (memory) MemObject;
  object->dispatch = &ours;
  object->context = context;
  object->kind = kind;
  ContextRecord record;
  if (find_context(context, record)) {
    object->device_count = record.device_count;
    std::memcpy(object->devices, record.devices, sizeof record.devices);
  }
  return object;
}

void adopt(MemObject* object, cl_mem actual) {
  object->actual = actual;
  live().put(object, {});
  const Lock lock(object_lock);
  object->next = all_objects;
  if (all_objects != nullptr) all_objects->previous = object;
  all_objects = object;
}

// The object goes; its charge and the program's callbacks follow when the driver is done with it.
void discard(MemObject* object) {
  object->magic = 0;
  object->~MemObject();
  std::free(object);
}

bool charge(MemObject* object, std::uint64_t bytes, const char* api) {
  for (std::uint32_t i = 0; i < object->device_count; ++i) {
    std::uint64_t seen = departures_so_far();
    VramAnswer answer = reserve(object->devices[i], bytes);
    while (!answer.granted && wait_for_departure(seen)) {
      seen = departures_so_far();
      answer = reserve(object->devices[i], bytes);
    }
    if (answer.granted) continue;
    log_refusal(api, object->devices[i], bytes, answer);
    for (std::uint32_t j = 0; j < i; ++j) release(object->devices[j], bytes);
    return false;
  }
  object->charged = bytes;
  return true;
}

void uncharge(const MemObject* object) {
  for (std::uint32_t i = 0; i < object->device_count; ++i) release(object->devices[i], object->charged);
}

void install_memory(cl_icd_dispatch& table) {
  table.clCreateBuffer = create_buffer;
  table.clCreateBufferWithProperties = create_buffer_with;
  table.clCreateSubBuffer = create_sub_buffer;
  table.clCreatePipe = create_pipe;
  table.clRetainMemObject = retain_memory;
  table.clReleaseMemObject = release_memory;
  table.clGetMemObjectInfo = get_memory_info;
  table.clSetMemObjectDestructorCallback = set_destructor;
}

}  // namespace tranche::guard::opencl
