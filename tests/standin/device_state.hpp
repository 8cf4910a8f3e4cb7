// SPDX-License-Identifier: Apache-2.0
#pragma once
// What do all processes see of the simulated devices? One shared file named by TRANCHE_STANDIN: a
// clock-driven engine per kind of work, the map of VRAM, and one slot per process. Test equipment: it ships
// with nothing.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <string>

#include "standin_calls.hpp"

namespace standin {

inline constexpr std::uint64_t kMagic = 0x5452414e53494d35;  // "TRANSIM5"
inline constexpr unsigned kDevicesMax = 8;
inline constexpr unsigned kSlotsMax = 1024;
inline constexpr unsigned kBlocksMax = 1U << 18;
inline constexpr unsigned kReferencesMax = 4096;
inline constexpr unsigned kMigMax = 16;
inline constexpr std::uint32_t kNone = 0xffffffff;
inline constexpr std::uint64_t kBucketNs = 10'000'000;
inline constexpr unsigned kBuckets = 8192;          // 82 s of history and queued future.
inline constexpr std::uint64_t kBlockAlign = 4096;  // A page, so that any block can be mapped anywhere.

struct Config {
  unsigned device_count = 1;
  unsigned multiprocessors = 108;
  unsigned threads_per_multiprocessor = 2048;
  int driver_version = 13000;
  unsigned queue_depth = 1024;  // Launches a stream takes before the caller waits, as hardware channels do.
  std::uint64_t vram_bytes = 16ULL << 30;
  std::uint64_t context_bytes = 64ULL << 20;
  std::uint64_t kernel_ns = 2'000'000;  // For functions whose name says nothing.
  std::uint64_t event_lag_ns = 20'000;  // Host learns of finished work so much later.
  std::uint64_t event_record_cost_ns = 1'000;
  std::uint64_t event_query_cost_ns = 500;
  std::uint64_t launch_cost_ns = 0;
  std::uint64_t host_copy_bytes_per_us = 12'000;     // Each direction has an engine of its own.
  std::uint64_t device_copy_bytes_per_us = 400'000;  // Copies inside VRAM and memsets, on the compute engine.
  unsigned checkpoint_supported = 1;
  unsigned host_pid_visible = 1;
  struct Mig {
    unsigned device = 0, slices = 0, start = 0;  // No slices: destroyed, its place is free.
    std::uint64_t memory_bytes = 0;
    char profile[24] = {};
  } mig[kMigMax];
  unsigned mig_count = 0;
  unsigned mig_enabled = 0;  // Bit n: device n.
};

enum class Engine : unsigned { kCompute, kHostToDevice, kDeviceToHost };
inline constexpr unsigned kEngines = 3;

struct Gap {
  std::uint64_t start_ns, end_ns;
};

struct EngineState {
  std::atomic<std::uint64_t> end_ns;   // When everything queued so far is done.
  std::atomic<std::uint64_t> busy_ns;  // Work ever queued.
  std::atomic<unsigned> gap_count;     // Idle holes in front of work that waits for another engine.
  Gap gaps[32];
};

// kAway: the process is checkpointed. The block keeps its number but has no VRAM.
enum class BlockState : std::uint32_t { kUnused, kFree, kUsed, kAway };

struct Block {
  std::uint64_t offset, size;
  std::uint64_t asked;  // Before rounding.
  std::atomic<BlockState> state;
  std::uint32_t owner;  // Slot of the process that created it.
  std::uint32_t holders;
  std::uint32_t previous, next;            // Neighbours in VRAM.
  std::uint32_t free_previous, free_next;  // In the list of its size class, newest first.
  std::uint32_t generation;                // So that a stale handle is noticed.
};

struct Reference {
  std::uint32_t device, block, slot, used;
};

struct DeviceState {
  EngineState engine[kEngines];
  std::uint64_t free_bytes;
  std::uint64_t asked_bytes, asked_most;  // What programs asked for of what is taken, now and at most.
  std::uint32_t class_head[64 * 8];
  std::uint32_t first_block, unused_head, blocks_touched;
  std::uint32_t padding;
  Block blocks[kBlocksMax];
};

struct Slot {
  std::atomic<std::uint32_t> used;
  std::atomic<std::int32_t> pid;  // In its own PID namespace.
  std::uint64_t pid_namespace, start_ticks, attach_ns;
  std::atomic<std::uint32_t> locked;   // CUprocessState: 0 running, 1 locked, 2 checkpointed.
  std::atomic<std::uint32_t> request;  // What its service thread is asked to do; zero when that is done.
  std::atomic<std::uint32_t> outcome;  // CUresult of the last request.
  std::atomic<std::uint64_t> vram_bytes[kDevicesMax];
  std::atomic<std::uint64_t> busy_ns[kDevicesMax][kEngines];
  std::atomic<std::uint64_t> kernels[kDevicesMax];
  std::atomic<std::uint64_t> calls[kCallCount];
  char command[64];
  std::atomic<std::uint64_t> bucket[kDevicesMax][kBuckets];  // High half: bucket number; low half: busy ns.
};

struct SharedState {
  std::atomic<std::uint64_t> magic;
  std::uint64_t size;
  Config config;
  pthread_mutex_t mutex;  // Robust, process-shared; guards blocks, references and slots.
  Reference references[kReferencesMax];
  Slot slots[kSlotsMax];
  DeviceState devices[kDevicesMax];
};

std::uint64_t now_ns();
void spin_for(std::uint64_t nanoseconds);
void sleep_until(std::uint64_t at_ns);

// Maps the shared state, creating it from the settings on first use. Null, with a word on stderr, when
// TRANCHE_STANDIN is not set: nobody meets a simulated device by accident.
SharedState* attach_state();
const std::string& state_path();

// The process's own slot; taken at cuInit, released by the kernel when the process dies, however it dies.
std::uint32_t attach_slot(SharedState& state);
bool slot_alive(const SharedState& state, std::uint32_t slot);
// Process id as the caller's PID namespace knows it; 0 where it cannot be seen.
std::int32_t visible_pid(const SharedState& state, std::uint32_t slot);

class StateLock {
 public:
  explicit StateLock(SharedState& state);
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  SharedState& state_;
};

// VRAM. Callers hold StateLock. Blocks are handed out newest first, so freed contents come back soon and
// dirty.
std::uint32_t take_block(SharedState& state, unsigned device, std::uint64_t bytes, std::uint32_t slot);
void hold_block(SharedState& state, unsigned device, std::uint32_t block, std::uint32_t slot);
void drop_block(SharedState& state, unsigned device, std::uint32_t block, std::uint32_t slot);
// Takes the VRAM from a block and leaves its number to its owner; false when the table is full.
bool park_block(SharedState& state, unsigned device, std::uint32_t block);
// Gives it VRAM again, perhaps elsewhere on the device; false when there is none.
bool unpark_block(SharedState& state, unsigned device, std::uint32_t block);
void rebuild_blocks(SharedState& state, unsigned device);
void format_device(SharedState& state, unsigned device);
// Frees what dead processes held; work they queued still drains, as on hardware.
void reclaim_dead(SharedState& state);

struct Span {
  std::uint64_t start_ns = 0, end_ns = 0;
};
struct Arrival {
  std::uint64_t ready_ns = 0;  // When what it depends on is done.
  std::uint64_t now_ns = 0;
};
// Puts work of a length on an engine: first come, first served, over all processes.
Span enqueue(SharedState& state,
             std::uint32_t slot,
             unsigned device,
             Engine engine,
             Arrival arrival,
             std::uint64_t length_ns);
// Busy time of a process (or of all, slot = kNone) on the compute engine inside a window of the past.
std::uint64_t busy_between(const SharedState& state,
                           unsigned device,
                           std::uint32_t slot,
                           std::uint64_t from_ns,
                           std::uint64_t until_ns);

}  // namespace standin
