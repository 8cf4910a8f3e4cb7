// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the parts of the OpenCL front share: the next level down, the table programs reach, and the objects
// whose handles the front gives out itself. Only memory objects are wrapped, so that a pause can move what is
// behind them; all other handles are the driver's own.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <atomic>
#include <cstdint>
#include <pthread.h>

#include "guard/front.hpp"

namespace tranche::guard::opencl {

extern cl_icd_dispatch real;  // The driver, or the layer below.
extern cl_icd_dispatch ours;  // What programs reach.

// Each part puts its entry points into the table.
void install_views(cl_icd_dispatch& table);
void install_memory(cl_icd_dispatch& table);
void install_images(cl_icd_dispatch& table);
void install_kernels(cl_icd_dispatch& table);
void install_copies(cl_icd_dispatch& table);
void install_rect_copies(cl_icd_dispatch& table);
void install_shared_memory(cl_icd_dispatch& table);

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(&mutex) { ::pthread_mutex_lock(mutex_); }
  ~Lock() { ::pthread_mutex_unlock(mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

// Held around every driver call that touches memory objects; a pause holds the other side until it ends.
class RunningScope {
 public:
  RunningScope();
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
};

// --- devices, contexts, queues ---
inline constexpr std::uint32_t kContextDevicesMax = 8;
struct ContextRecord {
  cl_context context = nullptr;
  cl_device_id handles[kContextDevicesMax] = {};
  std::uint32_t devices[kContextDevicesMax] = {};  // Places in the slice, without repetition.
  std::uint32_t handle_count = 0, device_count = 0;
  std::uint32_t program_references = 0;
  bool on_processor = false;             // All of its memory is the host's.
  cl_command_queue own_queue = nullptr;  // For zeroing and moving; made when first needed.
};
struct QueueRecord {
  cl_context context = nullptr;
  std::uint32_t device = 0;
  bool shows_profiling = false;  // The program asked for timestamps itself.
  bool in_order = true;
  std::uint32_t cpu_units = 0;              // Compute units, where the device is the host's processor.
  cl_queue_properties properties[16] = {};  // As the program gave them.
  std::uint32_t property_count = 0;
};
inline constexpr std::uint32_t kNoDevice = 0xffffffff;
std::uint32_t device_of(cl_device_id device);  // kNoDevice when it is not part of the slice.
bool find_context(cl_context context, ContextRecord& out);
QueueRecord find_queue(cl_command_queue queue);
// A queue of the front's own; give it back with drop_own_queue.
cl_command_queue take_own_queue(cl_context context);
void drop_own_queue(cl_command_queue queue);
void let_go_of_queue(cl_command_queue queue);  // Of a reference that the front took.
void for_each_queue(cl_context context, void (*visit)(cl_command_queue, void*), void* data);

// --- memory objects ---
enum class MemKind : std::uint32_t { kBuffer, kSubBuffer, kImage, kPipe, kForeign };
inline constexpr std::uint64_t kMemMagic = 0x4d454d4352545452;

struct Destructor {
  void(CL_CALLBACK* call)(cl_mem, void*) = nullptr;
  void* data = nullptr;
  Destructor* next = nullptr;
};

struct MemObject {
  const cl_icd_dispatch* dispatch = nullptr;  // First: loaders read it.
  std::uint64_t magic = kMemMagic;
  cl_mem actual = nullptr;
  cl_context context = nullptr;
  MemKind kind = MemKind::kBuffer;
  cl_mem_flags flags = 0;
  void* host_pointer = nullptr;
  std::uint64_t size = 0;
  std::uint64_t charged = 0;  // On each of the devices below.
  std::uint32_t devices[kContextDevicesMax] = {};
  std::uint32_t device_count = 0;
  cl_buffer_region region = {};  // Sub-buffer.
  cl_image_format format = {};   // Image.
  cl_image_desc shape = {};
  MemObject* parent = nullptr;
  std::atomic<std::uint32_t> references{1};
  std::atomic<std::uint32_t> maps{0};
  std::atomic<std::uint32_t> argument_uses{0};
  Destructor* destructors = nullptr;
  void* saved = nullptr;  // Contents, while paused.
  bool moved = false;
  MemObject* previous = nullptr;  // All live ones, for pausing.
  MemObject* next = nullptr;
};

inline MemObject* wrapped(cl_mem handle) {
  auto* object = reinterpret_cast<MemObject*>(handle);
  return object != nullptr && object->magic == kMemMagic ? object : nullptr;
}
inline cl_mem unwrap(cl_mem handle) {
  const MemObject* object = wrapped(handle);
  return object == nullptr ? handle : object->actual;
}
bool is_live(const void* handle);  // Without touching what it points to.
// The handle a program knows for a driver's object; the object itself where there is none.
cl_mem program_handle(cl_mem actual);
MemObject* new_object(cl_context context, MemKind kind);  // Registers it when `actual` is set: see adopt().
void adopt(MemObject* object, cl_mem actual);
void discard(MemObject* object);
MemObject* first_object();  // Under object_lock.
extern pthread_mutex_t object_lock;

// Charges every device of the object's context; false and logged when one refuses.
bool charge(MemObject* object, std::uint64_t bytes, const char* api);
void uncharge(const MemObject* object);
// Between the program's last release and the driver's end of an object lie its queued work and its zeroing.
void departure_begins();
void departure_ends();
std::uint64_t departures_so_far();
// True when something came back since `seen`; false when nothing is on its way, or not in time.
bool wait_for_departure(std::uint64_t seen);

// --- contents: nobody finds what another tenant left ---
bool must_zero_new(cl_context context);
bool must_zero_old(const std::uint32_t* devices, std::uint32_t count, std::uint64_t bytes);
void report_left(const std::uint32_t* devices, std::uint32_t count, std::uint64_t bytes);
// False when what was there before may still be in it.
bool zero_new(MemObject* object);
// Waits until it is done; what could not be zeroed is reported.
void zero_now(MemObject* object);
// Zeroing is work on the device like any copy: whoever frees in a loop pays for it. Waits its turn, so never
// inside a RunningScope.
CopyTicket pay_for_zeroing(const MemObject* object);
void zero_and_release(MemObject* object, const CopyTicket& ticket);

// --- kernels ---
void forget_argument(const MemObject* object);  // It is gone: no kernel may set it again.
void refresh_arguments();                       // After a pause: kernels get the new handles.

// --- pause ---
void start_pause_watch();

// --- waiting for and measuring one command ---
struct Command {
  cl_event* wanted = nullptr;  // The program's, or null.
  cl_event own = nullptr;
  cl_event* slot(bool measure) { return wanted != nullptr ? wanted : (measure ? &own : nullptr); }
  [[nodiscard]] cl_event event() const { return wanted != nullptr ? *wanted : own; }
  void drop_own() {
    if (own != nullptr) real.clReleaseEvent(own);
    own = nullptr;
  }
};
void measure_launch(cl_command_queue queue, const Command& command, const LaunchTicket& ticket);
void measure_copy(const Command& command, const CopyTicket& ticket);
inline constexpr std::uint64_t kMeasuredCopyBytes = 256 << 10;  // Smaller ones are latency, not bandwidth.

enum class Blocking { kNo, kYes };
// One copy through the gate. `copy` gets where to put the event, or null, and must not block.
template <typename Copy>
cl_int gated_copy(
    cl_command_queue queue, std::uint64_t bytes, Blocking blocking, cl_event* event, Copy&& copy) {
  const CopyTicket ticket = before_copy(find_queue(queue).device, bytes);
  if (ticket.ended) return CL_OUT_OF_RESOURCES;
  const bool measure = bytes >= kMeasuredCopyBytes;
  Command command;
  command.wanted = event;
  cl_int status = CL_SUCCESS;
  {
    const RunningScope running;
    status = copy(command.slot(measure || blocking == Blocking::kYes));
  }
  status == CL_SUCCESS ? measure_copy(command, ticket) : copy_unmeasured(ticket);
  if (status == CL_SUCCESS && blocking == Blocking::kYes) {
    const cl_event waited = command.event();
    status = real.clWaitForEvents(1, &waited);
  }
  command.drop_own();
  return status;
}

inline Blocking blocking_of(cl_bool value) {
  return value == CL_FALSE ? Blocking::kNo : Blocking::kYes;
}

}  // namespace tranche::guard::opencl
