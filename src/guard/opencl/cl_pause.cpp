// SPDX-License-Identifier: Apache-2.0
// A paused job gives its memory back: contents move to the host's memory, the driver's objects are released,
// and when the job goes on they are made anew behind the handles the program holds. One thread per process
// waits for the word of the broker; calls that touch memory wait for it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <time.h>

#include "guard/host_clock.hpp"
#include "guard/opencl/cl_front.hpp"

namespace tranche::guard::opencl {
namespace {

constexpr std::uint64_t kLookAgainNs = 200'000'000;
constexpr std::uint64_t kDrainNs =
    10'000'000'000;  // Work that waits for the program itself cannot be drained.

pthread_rwlock_t running_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
thread_local unsigned running_depth = 0;
std::atomic<bool> watching{false};

void nap(long nanoseconds) {
  const timespec time{0, nanoseconds};
  ::nanosleep(&time, nullptr);
}

bool pause_wanted() {
  const ControlRegion* control = control_region();
  if (control == nullptr) return false;
  const std::uint32_t count = control->device_count.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count && i < kDevicesMax; ++i)
    if ((control->devices[i].flags.load(std::memory_order_relaxed) & kPaused) != 0) return true;
  return false;
}

struct Drain {
  cl_event events[256];
  unsigned count = 0;
};

void mark(cl_command_queue queue, void* data) {
  auto* drain = static_cast<Drain*>(data);
  if (drain->count == 256) return;
  cl_event event = nullptr;
  if (real.clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event) != CL_SUCCESS) return;
  real.clFlush(queue);
  drain->events[drain->count++] = event;
}

// True when everything queued is done. False when it is not within the time: the program must go on first.
bool drain_queues() {
  Drain drain;
  for_each_queue(nullptr, mark, &drain);
  const std::uint64_t until = monotonic_ns() + kDrainNs;
  bool drained = true;
  for (unsigned i = 0; i < drain.count; ++i) {
    cl_int status = CL_QUEUED;
    while (status > CL_COMPLETE && drained) {
      real.clGetEventInfo(
          drain.events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
      if (status > CL_COMPLETE) nap(200'000);
      drained = monotonic_ns() < until;
    }
    real.clReleaseEvent(drain.events[i]);
  }
  return drained;
}

void image_extent(const MemObject& object, size_t* extent) {
  const cl_image_desc& shape = object.shape;
  extent[0] = shape.image_width;
  extent[1] = shape.image_height == 0 ? 1 : shape.image_height;
  extent[2] = shape.image_depth == 0 ? 1 : shape.image_depth;
  if (shape.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY) extent[1] = shape.image_array_size;
  if (shape.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY) extent[2] = shape.image_array_size;
}

// Copies the contents between the driver's object and the saved bytes.
enum class Direction { kOut, kIn };
bool transfer(MemObject* object, Direction direction) {
  const cl_command_queue queue = take_own_queue(object->context);
  if (queue == nullptr) return false;
  cl_int status = CL_SUCCESS;
  if (object->host_pointer != nullptr) {
    // The program's memory is the home of the contents: a mapping brings it up to date.
    if (direction == Direction::kOut && object->kind == MemKind::kBuffer) {
      void* view = real.clEnqueueMapBuffer(
          queue, object->actual, CL_TRUE, CL_MAP_READ, 0, object->size, 0, nullptr, nullptr, &status);
      if (view != nullptr) real.clEnqueueUnmapMemObject(queue, object->actual, view, 0, nullptr, nullptr);
    }
  } else if (object->kind == MemKind::kImage) {
    const size_t origin[3] = {0, 0, 0};
    size_t extent[3];
    image_extent(*object, extent);
    status =
        direction == Direction::kOut
            ? real.clEnqueueReadImage(
                  queue, object->actual, CL_TRUE, origin, extent, 0, 0, object->saved, 0, nullptr, nullptr)
            : real.clEnqueueWriteImage(
                  queue, object->actual, CL_TRUE, origin, extent, 0, 0, object->saved, 0, nullptr, nullptr);
  } else {
    status = direction == Direction::kOut
                 ? real.clEnqueueReadBuffer(
                       queue, object->actual, CL_TRUE, 0, object->size, object->saved, 0, nullptr, nullptr)
                 : real.clEnqueueWriteBuffer(
                       queue, object->actual, CL_TRUE, 0, object->size, object->saved, 0, nullptr, nullptr);
  }
  real.clFinish(queue);
  drop_own_queue(queue);
  return status == CL_SUCCESS;
}

bool movable(const MemObject* object) {
  if (object->charged == 0 || object->maps.load() != 0) return false;
  if (object->kind == MemKind::kImage) return object->host_pointer == nullptr && object->parent == nullptr;
  if (object->kind != MemKind::kBuffer) return false;
  for (const MemObject* other = first_object(); other != nullptr; other = other->next)
    if (other->parent == object && (other->kind != MemKind::kSubBuffer || other->maps.load() != 0))
      return false;
  return true;
}

std::uint64_t move_out(MemObject* object) {
  if (object->host_pointer == nullptr) {
    object->saved = std::malloc(object->size);
    if (object->saved == nullptr) return 0;
  }
  if (!transfer(object, Direction::kOut)) {
    std::free(object->saved);
    object->saved = nullptr;
    return 0;
  }
  zero_now(object);
  for (MemObject* part = first_object(); part != nullptr; part = part->next) {
    if (part->parent != object) continue;
    real.clReleaseMemObject(part->actual);
    part->actual = nullptr;
  }
  real.clReleaseMemObject(object->actual);
  object->actual = nullptr;
  object->moved = true;
  uncharge(object);
  return object->charged;
}

void charge_again(const MemObject* object) {
  for (std::uint32_t i = 0; i < object->device_count; ++i) {
    VramAnswer answer = reserve(object->devices[i], object->charged);
    if (!answer.granted) log_refusal("resume waits", object->devices[i], object->charged, answer);
    for (; !answer.granted; answer = reserve(object->devices[i], object->charged)) nap(5'000'000);
  }
}

void move_in(MemObject* object) {
  charge_again(object);
  cl_int status = CL_SUCCESS;
  const cl_mem_flags flags = object->flags & ~static_cast<cl_mem_flags>(CL_MEM_COPY_HOST_PTR);
  do {  // The driver may not have the memory yet either.
    object->actual =
        object->kind == MemKind::kImage
            ? real.clCreateImage(object->context, flags, &object->format, &object->shape, nullptr, &status)
            : real.clCreateBuffer(object->context, flags, object->size, object->host_pointer, &status);
    if (object->actual == nullptr) nap(5'000'000);
  } while (object->actual == nullptr);
  if (object->saved != nullptr) transfer(object, Direction::kIn);
  std::free(object->saved);
  object->saved = nullptr;
  object->moved = false;
  for (MemObject* part = first_object(); part != nullptr; part = part->next)
    if (part->parent == object)
      part->actual = real.clCreateSubBuffer(
          object->actual, part->flags, CL_BUFFER_CREATE_TYPE_REGION, &part->region, &status);
}

void wait_for_word(std::uint64_t at_most_ns) {
  const ControlRegion* control = control_region();
  if (control == nullptr) return nap(100'000'000);
  const Word32& wake = control->devices[0].lanes[0].wake;
  futex_wait(wake, wake.load(std::memory_order_acquire), at_most_ns);
}

void pause_until_resumed() {
  ::pthread_rwlock_wrlock(&running_lock);
  running_depth = 1;  // Calls of this thread pass.
  if (drain_queues() && pause_wanted()) {
    const Lock lock(object_lock);
    std::uint64_t moved = 0;
    for (MemObject* object = first_object(); object != nullptr; object = object->next)
      if (movable(object)) moved += move_out(object);
    std::fprintf(stderr,
                 "tranche-guard: paused: %llu bytes of device memory given back\n",
                 static_cast<unsigned long long>(moved));
    while (pause_wanted()) wait_for_word(50'000'000);
    for (MemObject* object = first_object(); object != nullptr; object = object->next)
      if (object->moved) move_in(object);
    refresh_arguments();
    std::fprintf(stderr, "tranche-guard: resumed\n");
  }
  running_depth = 0;
  ::pthread_rwlock_unlock(&running_lock);
}

void* watch(void*) {
  for (;;) {
    while (!pause_wanted()) wait_for_word(kLookAgainNs);
    pause_until_resumed();
  }
  return nullptr;
}

}  // namespace

RunningScope::RunningScope() {
  if (running_depth++ == 0) ::pthread_rwlock_rdlock(&running_lock);
}

RunningScope::~RunningScope() {
  if (--running_depth == 0) ::pthread_rwlock_unlock(&running_lock);
}

void start_pause_watch() {
  if (watching.exchange(true)) return;
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, watch, nullptr) == 0) ::pthread_detach(thread);
}

}  // namespace tranche::guard::opencl
