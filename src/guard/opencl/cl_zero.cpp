// SPDX-License-Identifier: Apache-2.0
// Nobody finds what another tenant left. While tenants share a device, freed memory is zeroed before anybody
// else can have it: the fill is queued behind everything the program queued so far, and the last reference
// goes when the fill is done. On a device where something was left, new memory is zeroed before the program
// learns its handle.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <time.h>

#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {
namespace {

constexpr unsigned kQueuesMax = 64;

pthread_mutex_t departure_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t departed = PTHREAD_COND_INITIALIZER;
unsigned departing = 0;  // Released by the program, not yet destroyed by the driver.
std::uint64_t departures = 0;

struct Markers {
  cl_event events[kQueuesMax];
  cl_command_queue
      queues[kQueuesMax];  // With a reference to each: a driver may not bear that the program lets
  unsigned count = 0;      // go of a queue in which a marker still stands.
};

void mark_queue(cl_command_queue queue, void* data) {
  auto* markers = static_cast<Markers*>(data);
  cl_event event = nullptr;
  if (markers->count == kQueuesMax) return;
  if (real.clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event) != CL_SUCCESS) return;
  real.clFlush(queue);
  real.clRetainCommandQueue(queue);
  markers->queues[markers->count] = queue;
  markers->events[markers->count++] = event;
}

struct Farewell {
  cl_mem actual = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t devices[kContextDevicesMax] = {};
  std::uint32_t device_count = 0;
  cl_command_queue queue = nullptr;
  Markers markers{};
};

void finish(Farewell* farewell) {
  const Markers& markers = farewell->markers;
  for (unsigned i = 0; i < markers.count; ++i) let_go_of_queue(markers.queues[i]);
  real.clReleaseMemObject(farewell->actual);
  drop_own_queue(farewell->queue);
  std::free(farewell);
}

void finish_dirty(Farewell* farewell) {
  report_left(farewell->devices, farewell->device_count, farewell->bytes);
  finish(farewell);
}

void CL_CALLBACK filled(cl_event event, cl_int status, void* data) {
  real.clReleaseEvent(event);
  auto* farewell = static_cast<Farewell*>(data);
  status == CL_COMPLETE ? finish(farewell) : finish_dirty(farewell);
}

cl_int fill(
    const MemObject& object, cl_command_queue queue, cl_uint waits, const cl_event* list, cl_event* event) {
  static const cl_uint4 zeros = {};  // As long as a colour of an image.
  if (object.kind == MemKind::kImage) {
    const size_t origin[3] = {0, 0, 0};
    size_t extent[3] = {object.shape.image_width,
                        object.shape.image_height == 0 ? 1 : object.shape.image_height,
                        object.shape.image_depth == 0 ? 1 : object.shape.image_depth};
    const size_t layers = object.shape.image_array_size == 0 ? 1 : object.shape.image_array_size;
    if (object.shape.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY) extent[1] = layers;
    if (object.shape.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY) extent[2] = layers;
    return real.clEnqueueFillImage(queue, object.actual, &zeros, origin, extent, waits, list, event);
  }
  // A byte is what every driver sets memory to with the best it has. A long pattern is a loop of stores, and
  // these read each line of the memory before they write it, as soon as it is larger than the caches.
  return real.clEnqueueFillBuffer(queue, object.actual, &zeros, 1, 0, object.size, waits, list, event);
}

// Done when it returns; there is nothing in front of it that would have to be waited for.
bool fill_and_wait(const MemObject& object) {
  const cl_command_queue queue = take_own_queue(object.context);
  cl_event event = nullptr;
  const bool filled = queue != nullptr && fill(object, queue, 0, nullptr, &event) == CL_SUCCESS &&
                      real.clWaitForEvents(1, &event) == CL_SUCCESS;
  if (event != nullptr) real.clReleaseEvent(event);
  drop_own_queue(queue);
  return filled;
}

}  // namespace

// The memory of a processor is the host's, whose kernel lets no process see what another left.
bool must_zero_new(cl_context context) {
  ContextRecord record;
  return find_context(context, record) && !record.on_processor &&
         std::any_of(record.devices, record.devices + record.device_count, must_zero_on_alloc);
}

bool must_zero_old(const std::uint32_t* devices, std::uint32_t count, std::uint64_t bytes) {
  bool must = false;
  for (std::uint32_t i = 0; i < count; ++i) must |= must_zero_on_free(devices[i], bytes);
  return must;
}

void report_left(const std::uint32_t* devices, std::uint32_t count, std::uint64_t bytes) {
  for (std::uint32_t i = 0; i < count; ++i) report_dirty(devices[i], bytes);
}

// What the program puts there itself leaves nothing of others.
bool zero_new(MemObject* object) {
  const bool brings_contents = (object->flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
  return brings_contents || !must_zero_new(object->context) || fill_and_wait(*object);
}

void zero_now(MemObject* object) {
  if (object->host_pointer == nullptr &&
      must_zero_old(object->devices, object->device_count, object->charged) && !fill_and_wait(*object))
    report_left(object->devices, object->device_count, object->charged);
}

CopyTicket pay_for_zeroing(const MemObject* object) {
  return before_copy(object->devices[0], object->charged);
}

void zero_and_release(MemObject* object, const CopyTicket& ticket) {
  auto* farewell = static_cast<Farewell*>(std::malloc(sizeof(Farewell)));
  if (farewell == nullptr) std::abort();  // Dirty memory must not get out.
  new (farewell) Farewell{
      object->actual, object->charged, {}, object->device_count, take_own_queue(object->context), {}};
  std::memcpy(farewell->devices, object->devices, sizeof farewell->devices);
  Markers& markers = farewell->markers;
  for_each_queue(object->context, mark_queue, &markers);
  cl_event event = nullptr;
  const cl_event* before = markers.count == 0 ? nullptr : markers.events;
  const bool queued = farewell->queue != nullptr &&
                      fill(*object, farewell->queue, markers.count, before, &event) == CL_SUCCESS;
  for (unsigned i = 0; i < markers.count; ++i) real.clReleaseEvent(markers.events[i]);
  if (!queued) return finish_dirty(farewell);
  measure_copy({&event}, ticket);
  const cl_command_queue own = farewell->queue;  // It may be over before the next line.
  if (real.clSetEventCallback(event, CL_COMPLETE, filled, farewell) != CL_SUCCESS)
    return finish_dirty(farewell);
  real.clFlush(own);
}

void departure_begins() {
  const Lock lock(departure_lock);
  ++departing;
}

void departure_ends() {
  const Lock lock(departure_lock);
  --departing;
  ++departures;
  ::pthread_cond_broadcast(&departed);
}

std::uint64_t departures_so_far() {
  const Lock lock(departure_lock);
  return departures;
}

bool wait_for_departure(std::uint64_t seen) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;  // Work of the program may stand before it, and may even wait for the program.
  const Lock lock(departure_lock);
  int status = 0;
  while (departures == seen && departing != 0 && status == 0)
    status = ::pthread_cond_timedwait(&departed, &departure_lock, &until);
  return departures != seen;
}

}  // namespace tranche::guard::opencl
