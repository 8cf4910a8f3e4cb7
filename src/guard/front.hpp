// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a front (CUDA, OpenCL) calls. A front translates API calls into these and knows no rule itself.
//
// How a front uses it:
//   once       attach() at the first API call that matters (device discovery, context creation). Cheap after.
//              kRefused means: tell the program there is no device; never go on unlimited.
//   memory     reserve(device, bytes) BEFORE the driver is asked; when it says no, log_refusal() and return
//   the
//              API's out-of-memory error. When the driver refuses afterwards: release(). On free: release()
//              after the driver freed. Memory that the driver takes on its own (contexts, modules):
//              add_unasked(). Keep the size of each object yourself (pointer_table.hpp).
//   views      visible_total()/visible_free() for every query of device memory.
//   launches   if (pass_inline(device, key, stream)) { real call; return; }   // nothing more to do
//              LaunchTicket t = before_launch(device, key, stream);            // may wait, never inside
//              capture if (t.ended) return <launch failed>; measure around the real call when t.measure
//              (events, profiling); if the call failed: launch_failed(t); else, once known: work_completed(t,
//              device_ns). A measure that will never be known: measure_lost(t). All of these may come from
//              any thread. set_poll(f): f() is called when a thread is about to wait, to collect measures
//              that are ready. Do not call any of it for work that is only being recorded (stream capture,
//              command buffers).
//   copies     CopyTicket c = before_copy(device, bytes); real call; copy_completed(c, ns) if a time is
//   known.
//              max_copy_chunk(device) says in what pieces a large copy should go while others share.
//   freeing    must_zero_on_free(device, bytes), must_zero_on_alloc(device).
//   ending     should_stop() tells warned and ended; before_launch() refuses by itself when the time is over.
// No call allocates from the heap of the program, throws, or starts a thread.
#include <cstdint>

#include "guard/kernel_times.hpp"
#include "guard/region.hpp"
#include "guard/vram_account.hpp"

namespace tranche::guard {

enum class Attachment { kAttached, kRefused };

// Connects to the broker (or finds the connection made before; again after a fork). Thread-safe.
Attachment attach();
// For tests, and for `guard run` helpers: use these regions instead of asking a broker. `bell` is an eventfd
// or -1.
void adopt_regions(const ControlRegion* control, LedgerRegion* ledger, int bell);
// Forget everything (tests).
void detach_for_test();
const ControlRegion* control_region();
LedgerRegion* ledger_region();

// --- memory ---
VramAnswer reserve(std::uint32_t device, std::uint64_t bytes);
void release(std::uint32_t device, std::uint64_t bytes);
void add_unasked(std::uint32_t device, std::uint64_t bytes);
[[nodiscard]] std::uint64_t visible_total(std::uint32_t device, std::uint64_t real_total);
[[nodiscard]] std::uint64_t visible_free(std::uint32_t device, std::uint64_t real_free);
// One line on stderr, the job's log: limit, use and request in bytes. At most one a millisecond.
void log_refusal(const char* api, std::uint32_t device, std::uint64_t bytes, const VramAnswer& answer);
// Whether these bytes must be zeroed before they go back. If not, they are noted as left: whoever comes to
// share the device later must not read them either.
[[nodiscard]] bool must_zero_on_free(std::uint32_t device, std::uint64_t bytes);
[[nodiscard]] bool must_zero_on_alloc(std::uint32_t device);
// Memory goes back to the device although it could not be zeroed: others must zero what they get.
void report_dirty(std::uint32_t device, std::uint64_t bytes);
// Before memory goes back that cannot be zeroed: true once nobody can read what is in it, because nobody
// shares the device or because all who do were told. Waits for the broker, a tenth of a second at most.
[[nodiscard]] bool may_go_back_dirty(std::uint32_t device, std::uint64_t bytes);

// --- launches ---
struct LaunchTicket {
  KernelTime* entry = nullptr;
  std::uint64_t key = 0;
  std::uint64_t predicted_ns = 0;
  std::uint64_t submitted_at = 0;   // CLOCK_MONOTONIC ns.
  std::uint64_t clear_at = 0;       // When the work of other tenants before it should be done.
  std::uint64_t mark = 0;           // Place in the tenant's stream of work.
  std::uint32_t covered = 0;        // Launches this measure stands for.
  std::uint32_t inline_before = 0;  // Launches of this thread that passed inline just before.
  std::uint32_t device = 0;
  bool measure = false;
  bool ended = false;
  bool first_of_row = false;  // Measured only so that the next launches know when they can have begun.
  bool in_row = false;
};

struct LaunchThread {
  std::int64_t credit_ns[kDevicesMax];      // Charged already, not yet used by this thread.
  std::uint32_t launches[kDevicesMax];      // Not yet counted in the ledger.
  std::uint32_t chunks_taken[kDevicesMax];  // In a row, while nobody else was waiting.
  std::uint64_t measured_key;               // Of the last launch that was not inline, if it was measured.
  std::uintptr_t stream;                    // Where that went,
  std::uintptr_t other_streams;             // and in which bits the streams of those after it differ.
  std::uint32_t row_left;                   // Launches that are measured one after the other.
};
// Known to be ready without a look (constinit) and to lie in this library (hidden): both are on the way of
// every launch.
extern constinit thread_local LaunchThread launch_thread;
extern KernelTimes kernel_times __attribute__((visibility("hidden")));

// The whole cost of almost every launch: a table look-up and a subtraction, no atomic read-modify-write.
inline bool pass_inline(std::uint32_t device, std::uint64_t key, const void* stream) {
  KernelTime* entry = kernel_times.find(key);
  if (entry == nullptr) return false;
  LaunchThread& thread = launch_thread;
  const std::int64_t left = thread.credit_ns[device] -
                            static_cast<std::int64_t>(entry->predicted_ns.load(std::memory_order_relaxed));
  if (left < 0) return false;
  thread.credit_ns[device] = left;
  ++thread.launches[device];
  thread.other_streams |= reinterpret_cast<std::uintptr_t>(stream) ^ thread.stream;
  entry->launched.store(entry->launched.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

// Where a launch goes, for fronts that learn of ends only: as the program named it, and what tells it from
// all other streams of the process.
struct LaunchStream {
  const void* handle = nullptr;
  const void* identity = nullptr;
};
LaunchTicket before_launch(std::uint32_t device, std::uint64_t key, const LaunchStream& stream = {});
void launch_failed(const LaunchTicket& ticket);
// The device itself told how long the work ran (profiling timestamps), and perhaps when it ended.
void work_completed(const LaunchTicket& ticket, std::uint64_t device_ns, std::uint64_t ended_at = 0);
// Only ends are known, in CLOCK_MONOTONIC ns: the work cannot have begun before `began_at` (the end of what
// was before it in its stream), nor before it was submitted, nor before other tenants' work in front was
// done.
void work_ended(const LaunchTicket& ticket, std::uint64_t began_at, std::uint64_t ended_at);
void measure_lost(const LaunchTicket& ticket);
// Too short to be timed one by one, kernels are timed in a row. True where this thread launched nothing but
// this kernel since one of them was measured, and nothing made it wait: if the end of the last one is known,
// batch_ended(ticket, end of the measured one, end of the last one).
[[nodiscard]] bool batch_before(std::uint32_t device, std::uint64_t key, LaunchTicket& ticket);
void batch_ended(const LaunchTicket& ticket, std::uint64_t began_at, std::uint64_t ended_at);
void set_poll(void (*poll)());

// --- copies ---
struct CopyTicket {
  std::uint64_t bytes = 0;
  std::uint64_t predicted_ns = 0;
  std::uint32_t device = 0;
  bool ended = false;
};
CopyTicket before_copy(std::uint32_t device, std::uint64_t bytes);
void copy_completed(const CopyTicket& ticket, std::uint64_t device_ns);
// Nobody will know how long it took: what was predicted has to do, or it would count as still to be done.
void copy_unmeasured(const CopyTicket& ticket);
// A copy of `bytes` took `ns` from end to end, perhaps behind copies of others: only what is fastest is
// believed at once.
void learn_copy_rate(std::uint64_t bytes, std::uint64_t ns);
[[nodiscard]] std::uint64_t max_copy_chunk(std::uint32_t device);

// --- execution time ---
[[nodiscard]] StopState should_stop();

}  // namespace tranche::guard
