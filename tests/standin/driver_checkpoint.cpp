// SPDX-License-Identifier: Apache-2.0
// Process checkpoint as the real driver has it: lock (calls that change anything wait), checkpoint (queued
// work ends, contents move to the host, the device's bytes are free for others, contexts' own included),
// restore (bytes are taken again, contents and addresses are as before), unlock. Another process asks; a
// service thread of the process itself does it. Memory shared with other processes is not supported.
#include <algorithm>
#include <array>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.hpp"

namespace standin {
namespace {

enum Request : std::uint32_t { kNothing, kCheckpoint, kRestore };

struct Saved {
  unsigned device = 0;
  std::uint32_t block = kNone;
  std::vector<std::uint8_t> contents;
};

std::vector<Saved>& saved() {
  static auto* const all = new std::vector<Saved>;
  return *all;
}

thread_local unsigned guard_depth = 0;
thread_local bool serves = false;

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  const timespec patience{0, 100'000'000};  // The other side may die without a word.
  return ::syscall(SYS_futex, &word, operation, value, &patience, nullptr, 0);
}

Slot& own_slot() {
  return driver().shared->slots[driver().slot];
}

bool locked() {
  const Driver& all = driver();
  return all.shared != nullptr &&
         own_slot().locked.load(std::memory_order_relaxed) != CU_PROCESS_STATE_RUNNING;
}

// Everything queued so far ends; callbacks of the program may still call in, so the lock is not held.
void drain() {
  for (;;) {
    std::uint64_t tail = 0;
    {
      const Guard guard(driver().mutex);
      for (const CUcontext context : driver().contexts) tail = std::max(tail, context->any_tail_ns);
    }
    if (is_known(tail)) return;
    wait_until_known(tail);
  }
}

void take_time(unsigned device, Engine engine, std::uint64_t bytes) {
  Driver& all = driver();
  const std::uint64_t now = now_ns();
  const std::uint64_t length =
      1'000 + bytes * 1'000 / std::max<std::uint64_t>(1, all.config().host_copy_bytes_per_us);
  sleep_until(enqueue(*all.shared, all.slot, device, engine, {now, now}, length).end_ns);
}

// Addresses of this process that show a block; the driver's own blocks have none.
std::vector<Allocation> shown(unsigned device, std::uint32_t block) {
  std::vector<Allocation> found;
  for (const auto& [base, allocation] : driver().allocations)
    if (allocation.device == device && allocation.block == block) found.push_back(allocation);
  for (const auto& [base, memory] : driver().graph_memory)
    if (memory.device == device && memory.block == block) found.push_back(memory);
  return found;
}

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
}

bool shared_with_others() {
  Driver& all = driver();
  for (const Reference& reference : all.shared->references) {
    if (reference.used == 0) continue;
    if (reference.slot == all.slot ||
        all.shared->devices[reference.device].blocks[reference.block].owner == all.slot)
      return true;
  }
  return false;
}

using Bytes = std::array<std::uint64_t, kDevicesMax>;

void charge_time(Engine engine, const Bytes& moved) {
  for (unsigned device = 0; device < kDevicesMax; ++device)
    if (moved[device] != 0) take_time(device, engine, moved[device]);
}

CUresult move_out(unsigned device, std::uint32_t index) {
  Driver& all = driver();
  const Block& block = all.shared->devices[device].blocks[index];
  const std::uint8_t* from = device_memory(device) + block.offset;
  saved().push_back({device, index, {from, from + block.size}});
  for (const Allocation& each : shown(device, index))
    ::mmap(reinterpret_cast<void*>(each.base),
           whole_pages(each.size),
           PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
           -1,
           0);
  return park_block(*all.shared, device, index) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult checkpoint() {
  Driver& all = driver();
  drain();
  const Guard guard(all.mutex);
  Bytes moved{};
  {
    const StateLock lock(*all.shared);
    if (shared_with_others()) return CUDA_ERROR_NOT_SUPPORTED;
    for (unsigned device = 0; device < all.config().device_count; ++device) {
      const DeviceState& state = all.shared->devices[device];
      for (std::uint32_t index = 0; index < state.blocks_touched; ++index) {
        const Block& block = state.blocks[index];
        if (block.state.load() != BlockState::kUsed || block.owner != all.slot) continue;
        moved[device] += block.size;
        if (const CUresult status = move_out(device, index); status != CUDA_SUCCESS) return status;
      }
    }
  }
  charge_time(Engine::kDeviceToHost, moved);
  return CUDA_SUCCESS;
}

// All or nothing: a device that is too full leaves the process checkpointed.
bool take_blocks_again() {
  Driver& all = driver();
  std::size_t taken = 0;
  while (taken < saved().size() && unpark_block(*all.shared, saved()[taken].device, saved()[taken].block))
    ++taken;
  if (taken == saved().size()) return true;
  while (taken-- > 0) park_block(*all.shared, saved()[taken].device, saved()[taken].block);
  return false;
}

CUresult restore() {
  Driver& all = driver();
  const Guard guard(all.mutex);
  {
    const StateLock lock(*all.shared);
    if (!take_blocks_again()) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Old addresses show their blocks wherever those are now, so new memory is shown through a fresh window.
  for (unsigned device = 0; device < all.config().device_count; ++device) {
    if (all.vram[device] == nullptr) continue;
    all.vram[device] = nullptr;
    if (device_memory(device) == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  Bytes moved{};
  for (const Saved& each : saved()) {
    const Block& block = all.shared->devices[each.device].blocks[each.block];
    std::copy(each.contents.begin(), each.contents.end(), device_memory(each.device) + block.offset);
    for (const Allocation& view : shown(each.device, each.block))
      map_block(view.base, each.device, each.block, 0, whole_pages(view.size));
    moved[each.device] += block.size;
  }
  map_again();
  saved().clear();
  charge_time(Engine::kHostToDevice, moved);
  return CUDA_SUCCESS;
}

void serve() {
  serves = true;
  Slot& slot = own_slot();
  for (;;) {
    const std::uint32_t request = slot.request.load();
    if (request == kNothing) {
      futex(slot.request, FUTEX_WAIT, kNothing);
      continue;
    }
    slot.outcome.store(request == kCheckpoint ? checkpoint() : restore());
    slot.request.store(kNothing);
    futex(slot.request, FUTEX_WAKE, INT32_MAX);
  }
}

// The slot of a process given as the caller knows it; kNone when there is none.
std::uint32_t slot_of(int pid) {
  const SharedState& shared = *driver().shared;
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot)
    if (shared.slots[slot].used.load() != 0 && visible_pid(shared, slot) == pid) return slot;
  return kNone;
}

CUresult find_slot(int pid, std::uint32_t& slot) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (driver().config().checkpoint_supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
  slot = slot_of(pid);
  return slot == kNone ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult change_state(int pid, CUprocessState from, CUprocessState to) {
  std::uint32_t slot = kNone;
  if (const CUresult status = find_slot(pid, slot); status != CUDA_SUCCESS) return status;
  std::atomic<std::uint32_t>& state = driver().shared->slots[slot].locked;
  std::uint32_t expected = from;
  if (!state.compare_exchange_strong(expected, to)) return CUDA_ERROR_ILLEGAL_STATE;
  futex(state, FUTEX_WAKE, INT32_MAX);
  return CUDA_SUCCESS;
}

CUresult ask(int pid, Request request, CUprocessState from, CUprocessState to) {
  std::uint32_t index = kNone;
  if (const CUresult status = find_slot(pid, index); status != CUDA_SUCCESS) return status;
  Slot& slot = driver().shared->slots[index];
  if (slot.locked.load() != from) return CUDA_ERROR_ILLEGAL_STATE;
  std::uint32_t nothing = kNothing;
  if (!slot.request.compare_exchange_strong(nothing, request)) return CUDA_ERROR_NOT_READY;
  futex(slot.request, FUTEX_WAKE, INT32_MAX);
  while (slot.request.load() == request) {
    if (!slot_alive(*driver().shared, index)) return CUDA_ERROR_INVALID_VALUE;
    futex(slot.request, FUTEX_WAIT, request);
  }
  const auto outcome = static_cast<CUresult>(slot.outcome.load());
  return outcome == CUDA_SUCCESS ? change_state(pid, from, to) : outcome;
}

}  // namespace

Guard::Guard(std::recursive_mutex& mutex) : mutex_(mutex) {
  mutex_.lock();
  if (guard_depth++ != 0 || serves) return;
  while (locked()) {
    std::atomic<std::uint32_t>& state = own_slot().locked;
    const std::uint32_t seen = state.load();
    mutex_.unlock();
    if (seen != CU_PROCESS_STATE_RUNNING) futex(state, FUTEX_WAIT, seen);
    mutex_.lock();
  }
}

Guard::~Guard() {
  --guard_depth;
  mutex_.unlock();
}

void start_checkpoint_service() {
  std::thread(serve).detach();
}

}  // namespace standin

using namespace standin;

STANDIN_API cuCheckpointProcessLock(int pid, CUcheckpointLockArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessLock);
  return change_state(pid, CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED);
}

STANDIN_API cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessUnlock);
  return change_state(pid, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_RUNNING);
}

STANDIN_API cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessCheckpoint);
  return ask(pid, kCheckpoint, CU_PROCESS_STATE_LOCKED, CU_PROCESS_STATE_CHECKPOINTED);
}

STANDIN_API cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessRestore);
  return ask(pid, kRestore, CU_PROCESS_STATE_CHECKPOINTED, CU_PROCESS_STATE_LOCKED);
}

STANDIN_API cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  STANDIN_ENTRY(cuCheckpointProcessGetState);
  std::uint32_t slot = kNone;
  if (const CUresult status = find_slot(pid, slot); status != CUDA_SUCCESS) return status;
  *state = static_cast<CUprocessState>(driver().shared->slots[slot].locked.load());
  return CUDA_SUCCESS;
}

STANDIN_API cuCheckpointProcessGetRestoreThreadId(int pid, int* thread) {
  STANDIN_ENTRY(cuCheckpointProcessGetRestoreThreadId);
  *thread = pid;
  return CUDA_SUCCESS;
}
