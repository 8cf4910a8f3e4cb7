// SPDX-License-Identifier: Apache-2.0
// Freed memory is zeroed before anybody else can have it. Nothing waits in the program's thread: the fill is
// queued behind everything the program queued so far, and the last reference goes when the fill is done.
#include <cstdlib>
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

void CL_CALLBACK filled(cl_event event, cl_int, void* data) {
  real.clReleaseEvent(event);
  finish(static_cast<Farewell*>(data));
}

cl_int fill(MemObject* object, cl_command_queue queue, const Markers& before, cl_event* event) {
  const cl_event* list = before.count == 0 ? nullptr : before.events;
  static const cl_ulong16 zeros = {};
  if (object->kind == MemKind::kImage) {
    const size_t origin[3] = {0, 0, 0};
    size_t extent[3] = {object->shape.image_width,
                        object->shape.image_height == 0 ? 1 : object->shape.image_height,
                        object->shape.image_depth == 0 ? 1 : object->shape.image_depth};
    const size_t layers = object->shape.image_array_size == 0 ? 1 : object->shape.image_array_size;
    if (object->shape.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY) extent[1] = layers;
    if (object->shape.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY) extent[2] = layers;
    return real.clEnqueueFillImage(queue, object->actual, &zeros, origin, extent, before.count, list, event);
  }
  const size_t pattern = object->size % sizeof zeros == 0 ? sizeof zeros : 1;
  return real.clEnqueueFillBuffer(
      queue, object->actual, &zeros, pattern, 0, object->size, before.count, list, event);
}

}  // namespace

void zero_and_release(MemObject* object) {
  auto* farewell = static_cast<Farewell*>(std::malloc(sizeof(Farewell)));
  if (farewell == nullptr) std::abort();  // Dirty memory must not get out.
  new (farewell) Farewell{object->actual, take_own_queue(object->context), {}};
  Markers& markers = farewell->markers;
  for_each_queue(object->context, mark_queue, &markers);
  cl_event event = nullptr;
  const bool queued =
      farewell->queue != nullptr && fill(object, farewell->queue, markers, &event) == CL_SUCCESS;
  for (unsigned i = 0; i < markers.count; ++i) real.clReleaseEvent(markers.events[i]);
  const cl_command_queue own = farewell->queue;  // It may be over before the next line.
  if (!queued || real.clSetEventCallback(event, CL_COMPLETE, filled, farewell) != CL_SUCCESS) {
    finish(farewell);
    return;
  }
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
