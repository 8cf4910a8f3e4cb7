// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory. A pool keeps what was freed until the next synchronisation, so not pointers but
// pools are charged, by what they say they hold: the device never holds more than the account. Graphs have
// such a pool on each device, which has no handle of its own.
#include <algorithm>
#include <cstdio>
#include <sched.h>
#include <type_traits>
#include <unistd.h>

#include "guard/cuda/graph_memory.hpp"
#include "guard/cuda/launch.hpp"
#include "guard/cuda/pool_contents.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr std::uint32_t kPoolsMax = 64;
constexpr int kReservedNow = 5;  // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
constexpr int kUsedNow = 7;      // CU_MEMPOOL_ATTR_USED_MEM_CURRENT
constexpr int kFreedComesBackMs = 10'000;
constexpr int kGraphReservedNow = 2;  // CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT

struct Pool {
  void* handle = nullptr;
  std::uint32_t device = 0;
  std::uint64_t charged = 0;
};
Pool pools[kPoolsMax];                  // NOLINT: index zero stays empty and means "no pool is known".
std::atomic<std::uint32_t> pools_lock;  // NOLINT
char graph_marks[kDevicesMax];          // NOLINT: their addresses stand for the graphs' memory of a device.
// A launch that counts on memory from before must not meet a trim: it sees the trim, or the trim sees it.
std::atomic<std::uint32_t> graph_launches;  // NOLINT: under way.
std::atomic<std::uint32_t> graph_trims{1};  // NOLINT

class Hold {
 public:
  Hold() {
    for (int spins = 0; pools_lock.exchange(1, std::memory_order_acquire) != 0; ++spins)
      if (spins > 100) ::sched_yield();
  }
  ~Hold() { pools_lock.store(0, std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
};

bool is_graph_memory(const void* handle) {
  return handle >= graph_marks && handle < graph_marks + kDevicesMax;
}

void* current_pool(std::uint32_t device) {
  void* pool = nullptr;
  auto* ask = DRIVER(cuDeviceGetMemPool, Result(void**, Device));
  return ask != nullptr && ask(&pool, static_cast<Device>(device)) == kSuccess ? pool : nullptr;
}

bool reserved_by(void* pool, std::uint64_t& bytes) {
  if (is_graph_memory(pool)) {
    auto* graphs = DRIVER(cuDeviceGetGraphMemAttribute, Result(Device, int, void*));
    const auto device = static_cast<Device>(static_cast<char*>(pool) - graph_marks);
    return graphs != nullptr && graphs(device, kGraphReservedNow, &bytes) == kSuccess;
  }
  auto* ask = DRIVER(cuMemPoolGetAttribute, Result(void*, int, void*));
  return ask != nullptr && ask(pool, kReservedNow, &bytes) == kSuccess;
}

// The pool's place; zero where the driver does not tell what pools hold, or there are too many.
std::uint32_t place_of(void* pool, std::uint32_t device) {
  std::uint64_t ignored = 0;
  if (pool == nullptr) pool = current_pool(device);
  if (pool == nullptr || !reserved_by(pool, ignored)) return 0;
  const Hold hold;
  std::uint32_t free = 0;
  for (std::uint32_t i = 1; i < kPoolsMax; ++i) {
    if (pools[i].handle == pool) return i;
    if (free == 0 && pools[i].handle == nullptr) free = i;
  }
  if (free != 0) pools[free] = {pool, device, 0};
  return free;
}

// `extra` was reserved for the pool beside what stands. False: the pool took more than that, and the limit
// has no room for it.
bool settle(std::uint32_t place, std::uint64_t extra, std::uint64_t* came_back = nullptr) {
  const Hold hold;
  Pool& pool = pools[place];
  std::uint64_t holds = 0;
  if (pool.handle == nullptr || !reserved_by(pool.handle, holds)) return true;
  const std::uint64_t charged = pool.charged + extra;
  if (holds > charged && !reserve(pool.device, holds - charged).granted) {
    pool.charged = charged;
    return false;
  }
  if (holds < charged) release(pool.device, charged - holds);
  if (came_back != nullptr && holds < charged) *came_back += charged - holds;
  pool.charged = holds;
  return true;
}

// Something was freed, and its pool has not given it back.
bool freed_is_kept(std::uint32_t device) {
  auto* ask = DRIVER(cuMemPoolGetAttribute, Result(void*, int, void*));
  const Hold hold;
  for (const Pool& pool : pools) {
    std::uint64_t used = 0;
    if (pool.handle == nullptr || is_graph_memory(pool.handle) || pool.device != device) continue;
    if (ask != nullptr && ask(pool.handle, kUsedNow, &used) == kSuccess && used < pool.charged) return true;
  }
  return false;
}

void tell_unzeroed(const char* api) {
  char text[160];
  const int length = std::snprintf(text,
                                   sizeof text,
                                   "tranche-guard: %s: the device holds what others left, and this driver "
                                   "cannot zero memory of pools\n",
                                   api);
  if (length > 0 && ::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) return;
}

VramAnswer reserve_for_pool(std::uint32_t device, std::uint64_t bytes) {
  VramAnswer answer = reserve(device, bytes);
  if (!answer.granted && settle_pools(PoolCare::kTrim)) answer = reserve(device, bytes);
  return answer;
}

// What was freed comes back when its stream gets there. On a dirty device nothing is used again before that,
// so there the limit is reached earlier, and waiting helps; but not for ever, because a stream may wait for
// its program.
VramAnswer reserve_for_zeroed(std::uint32_t device, std::uint64_t bytes) {
  VramAnswer answer = reserve_for_pool(device, bytes);
  for (int i = 0; i < kFreedComesBackMs && !answer.granted && freed_is_kept(device); ++i) {
    ::usleep(1'000);
    answer = reserve_for_pool(device, bytes);
  }
  return answer;
}

struct StreamOrdered {
  const char* api;
  void* pool;
  Pointer* out;
  std::size_t bytes;
  std::uint32_t device;
};

Result remember_in(std::uint32_t place, const StreamOrdered& wanted, const VramAnswer& answer, Stream where) {
  if (place != 0 && !settle(place, wanted.bytes)) {
    auto* undo = DRIVER(cuMemFreeAsync, Result(Pointer, Stream));
    if (undo != nullptr) undo(*wanted.out, where);
    settle_pools(PoolCare::kTrim);
    log_refusal(wanted.api, wanted.device, wanted.bytes, answer);
    return kOutOfMemory;
  }
  memory_table.insert(
      {*wanted.out, wanted.bytes, wanted.device, place == 0 ? kPlain : kPooled, place == 0 ? 1 : place, 0});
  return kSuccess;
}

// The driver is asked by `ask`; on a dirty device nobody learns the address before the memory is zero.
template <class Ask>
Result allocate_from_pool(const StreamOrdered& wanted, Stream where, bool dirty, Ask ask) {
  const std::uint32_t place = place_of(wanted.pool, wanted.device);
  const VramAnswer answer =
      dirty ? reserve_for_zeroed(wanted.device, wanted.bytes) : reserve_for_pool(wanted.device, wanted.bytes);
  if (!answer.granted) {
    log_refusal(wanted.api, wanted.device, wanted.bytes, answer);
    return kOutOfMemory;
  }
  const Result outcome = ask();
  if (outcome != kSuccess) {
    release(wanted.device, wanted.bytes);
    return outcome;
  }
  return remember_in(place, wanted, answer, where);
}

Result allocate_zeroed(StreamOrdered wanted, Stream where) {
  if (wanted.pool == nullptr) wanted.pool = current_pool(wanted.device);
  const Result outcome = allocate_from_pool(
      wanted, where, true, [&] { return take_zeroed(wanted.out, wanted.bytes, wanted.pool); });
  if (outcome == kNotSupported) tell_unzeroed(wanted.api);
  return outcome;
}

// Inside a capture it becomes a node of the graph and is charged when that runs.
template <class Ask>
Result allocate_on_stream(
    const char* api, void* pool, Pointer* out, std::size_t bytes, Stream stream, bool per_thread, Ask ask) {
  if (out == nullptr || is_capturing(stream, per_thread)) return ask(out);
  const StreamOrdered wanted{api, pool, out, bytes, current_device()};
  const Stream where = explicit_stream(stream, per_thread ? StreamKind::kPerThread : StreamKind::kLegacy);
  if (must_zero_on_alloc(wanted.device)) return allocate_zeroed(wanted, where);
  Pointer taken = 0;
  const StreamOrdered hidden{api, pool, &taken, bytes, wanted.device};
  const Result outcome = allocate_from_pool(hidden, where, false, [&] { return ask(&taken); });
  if (outcome != kSuccess) return outcome;
  if (must_zero_on_alloc(wanted.device)) {  // Somebody left something meanwhile.
    auto* set = DRIVER(cuMemsetD8Async, Result(Pointer, unsigned char, std::size_t, Stream));
    auto* undo = DRIVER(cuMemFreeAsync, Result(Pointer, Stream));
    TableEntry entry;
    if (set != nullptr) set(taken, 0, bytes, where);  // The pool may keep it until the device is clean again.
    if (undo != nullptr && undo(taken, where) == kSuccess && memory_table.remove(taken, entry))
      uncharge_pointer(entry);
    return allocate_zeroed(wanted, where);
  }
  *out = taken;
  return kSuccess;
}

template <class Ask>
Result free_on_stream(Pointer pointer, Stream stream, bool per_thread, Ask ask) {
  TableEntry entry;
  const bool capturing = is_capturing(stream, per_thread);
  const bool ours = !capturing && memory_table.remove(pointer, entry);
  if (ours && must_zero_on_free(entry.device, entry.bytes)) {
    auto* set = DRIVER(cuMemsetD8Async, Result(Pointer, unsigned char, std::size_t, Stream));
    const StreamKind kind = per_thread ? StreamKind::kPerThread : StreamKind::kLegacy;
    const auto zero = [&] {
      return set == nullptr ? kNotSupported : set(pointer, 0, entry.bytes, explicit_stream(stream, kind));
    };
    if (device_work(DeviceWork::kSet, entry.bytes, stream, kind, zero) != kSuccess)
      report_dirty(entry.device, entry.bytes);
  }
  const Result outcome = ask();
  if (ours && outcome == kSuccess) uncharge_pointer(entry);
  if (ours && outcome != kSuccess) memory_table.insert(entry);
  return outcome;
}

}  // namespace

void uncharge_pointer(const TableEntry& entry) {
  if (entry.kind != kPooled) return release(entry.device, entry.bytes);
  settle(entry.references % kPoolsMax, 0);
}

bool settle_pools(PoolCare care) {
  auto* trim = DRIVER(cuMemPoolTrimTo, Result(void*, std::size_t));
  const bool trims = care == PoolCare::kTrim && captures_active.load(std::memory_order_relaxed) == 0;
  std::uint64_t came_back = 0;
  for (std::uint32_t i = 1; i < kPoolsMax; ++i) {
    void* handle = pools[i].handle;
    if (handle == nullptr) continue;
    if (trims && is_graph_memory(handle)) {
      if (pools[i].charged != 0) trim_graph_memory(static_cast<Device>(pools[i].device));
    } else if (trims && trim != nullptr) {
      trim(handle, 0);
    }
    settle(i, 0, &came_back);
  }
  return came_back > 0;
}

namespace {

// Memory of graphs has no addresses of its own while no graph runs, so it cannot be zeroed.
std::uint64_t held_by_graphs(std::uint32_t device) {
  for (std::uint32_t i = 1; i < kPoolsMax; ++i)
    if (device < kDevicesMax && pools[i].handle == &graph_marks[device]) return pools[i].charged;
  return 0;
}

}  // namespace

Result trim_graph_memory(Device device) {
  auto* trim = DRIVER(cuDeviceGraphMemTrim, Result(Device));
  graph_trims.fetch_add(1);
  if (trim == nullptr || graph_launches.load() != 0) return kSuccess;  // A trim is a wish, not a promise.
  const auto where = static_cast<std::uint32_t>(device);
  return may_go_back_dirty(where, held_by_graphs(where)) ? trim(device) : kSuccess;
}

void settle_graph_memory(std::uint32_t device) {
  for (std::uint32_t i = 1; i < kPoolsMax; ++i)
    if (device < kDevicesMax && pools[i].handle == &graph_marks[device]) settle(i, 0);
}

bool GraphMemory::reserve_for(const char* api, void* exec) {
  TableEntry entry;
  const bool known = object_table.update(key_of(exec), [&](TableEntry& each) { entry = each; });
  if (!known || entry.kind != kGraphExec || entry.device >= kDevicesMax) return true;
  graph_launches.fetch_add(1);
  trims_ = graph_trims.load();
  if (entry.references != trims_) {  // A trim may have taken what it had, if it ever had any.
    graph_launches.fetch_sub(1);
    const VramAnswer answer = reserve_for_pool(entry.device, entry.bytes);
    if (!answer.granted) {
      log_refusal(api, entry.device, entry.bytes, answer);
      return false;
    }
    reserved_ = entry.bytes;
    graph_launches.fetch_add(1);
    trims_ = graph_trims.load();
  }
  exec_ = exec;
  device_ = entry.device;
  place_ = place_of(&graph_marks[device_], device_);
  return true;
}

void GraphMemory::settle_after(Result outcome) {
  if (exec_ == nullptr) return;
  std::uint64_t holds = 0;
  if (place_ != 0 && !settle(place_, reserved_) && reserved_by(&graph_marks[device_], holds)) {
    // More than its granularity allows: it runs already, so it is charged whatever the limit says.
    const Hold hold;
    Pool& pool = pools[place_];
    if (holds > pool.charged) add_unasked(device_, holds - pool.charged);
    pool.charged = std::max(pool.charged, holds);
  }
  graph_launches.fetch_sub(1);
  if (outcome == kSuccess)
    object_table.update(key_of(exec_), [&](TableEntry& entry) { entry.references = trims_; });
}

}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuMemAllocAsync(Pointer* out, std::size_t bytes, Stream stream) {
  return allocate_on_stream("cuMemAllocAsync", nullptr, out, bytes, stream, false, [&](Pointer* taken) {
    return REAL(cuMemAllocAsync)(taken, bytes, stream);
  });
}
GUARD_EXPORT Result cuMemAllocAsync_ptsz(Pointer* out, std::size_t bytes, Stream stream) {
  return allocate_on_stream("cuMemAllocAsync", nullptr, out, bytes, stream, true, [&](Pointer* taken) {
    return REAL(cuMemAllocAsync_ptsz)(taken, bytes, stream);
  });
}
GUARD_EXPORT Result cuMemAllocFromPoolAsync(Pointer* out, std::size_t bytes, void* pool, Stream stream) {
  return allocate_on_stream("cuMemAllocFromPoolAsync", pool, out, bytes, stream, false, [&](Pointer* taken) {
    return REAL(cuMemAllocFromPoolAsync)(taken, bytes, pool, stream);
  });
}
GUARD_EXPORT Result cuMemAllocFromPoolAsync_ptsz(Pointer* out, std::size_t bytes, void* pool, Stream stream) {
  return allocate_on_stream("cuMemAllocFromPoolAsync", pool, out, bytes, stream, true, [&](Pointer* taken) {
    return REAL(cuMemAllocFromPoolAsync_ptsz)(taken, bytes, pool, stream);
  });
}
GUARD_EXPORT Result cuMemFreeAsync(Pointer pointer, Stream stream) {
  return free_on_stream(pointer, stream, false, [&] { return REAL(cuMemFreeAsync)(pointer, stream); });
}
GUARD_EXPORT Result cuMemFreeAsync_ptsz(Pointer pointer, Stream stream) {
  return free_on_stream(pointer, stream, true, [&] { return REAL(cuMemFreeAsync_ptsz)(pointer, stream); });
}

// Freed memory that a pool keeps stays charged, so it may keep none beyond the next synchronisation.
GUARD_EXPORT Result cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  std::uint64_t nothing = 0;
  if (attribute == kPoolReleaseThreshold && value != nullptr) value = &nothing;
  return set_pool_attribute(pool, attribute, value);
}

GUARD_EXPORT Result cuMemPoolTrimTo(void* pool, std::size_t keep) {
  const Result outcome = REAL(cuMemPoolTrimTo)(pool, keep);
  if (outcome == kSuccess)
    for (std::uint32_t i = 1; i < kPoolsMax; ++i)
      if (pools[i].handle == pool) settle(i, 0);
  return outcome;
}

GUARD_EXPORT Result cuMemPoolDestroy(void* pool) {
  const Result outcome = REAL(cuMemPoolDestroy)(pool);
  if (outcome != kSuccess) return outcome;
  const Hold hold;
  for (Pool& each : pools) {
    if (each.handle != pool) continue;
    release(each.device, each.charged);
    each = {};
  }
  return outcome;
}
