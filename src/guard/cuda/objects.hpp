// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the CUDA front remembers about this process: live memory, live graphs, and streams under capture.
#include "guard/cuda/real_driver.hpp"
#include "guard/front.hpp"
#include "guard/pointer_table.hpp"

namespace tranche::guard::cuda {

enum Kind : std::uint32_t {
  kPlain,     // cuMemAlloc, Pitch, Managed, Async, pools
  kPhysical,  // cuMemCreate and imported handles
  kMapping,   // cuMemMap: address -> handle in `bytes`
  kImported,  // IPC, external memory, pool pointers
  kPooled,    // Stream-ordered memory: `references` says which pool, and the pool is what is charged.
  kArray,
  kGraphExec,  // Executable graph -> bytes of its allocation nodes at most; see graph_memory.hpp.
};

extern PointerTable memory_table;  // By address.
extern PointerTable object_table;  // By handle: arrays, physical memory, graphs.

inline std::uint64_t key_of(const void* object) {
  return reinterpret_cast<std::uintptr_t>(object);
}

// A pointer was freed: what it stood for is no longer charged.
void uncharge_pointer(const TableEntry& entry);
// Brings the account of every pool, and of graphs, in line with what they hold. Trimming makes them give back
// what they only keep. True when something came back.
enum class PoolCare { kRead, kTrim };
bool settle_pools(PoolCare care);

// Reserves, asks the driver, remembers; gives back when the driver says no. `ask` returns the driver's
// result.
template <class Ask>
Result allocate(const char* api, std::uint32_t device, std::uint64_t bytes, Ask ask) {
  VramAnswer answer = reserve(device, bytes);
  if (!answer.granted && settle_pools(PoolCare::kTrim))
    answer = reserve(device, bytes);  // Pools keep what they were given back.
  if (!answer.granted) {
    log_refusal(api, device, bytes, answer);
    return kOutOfMemory;
  }
  const Result outcome = ask();
  if (outcome != kSuccess) release(device, bytes);
  return outcome;
}

// A program must not read what somebody else left behind.
void clean_new(std::uint32_t device, Pointer pointer, std::uint64_t bytes);
void clean_old(std::uint32_t device, Pointer pointer, std::uint64_t bytes);
// Arrays have no addresses: zeros are copied into them. `levels` is zero for an array without mipmaps.
void clean_new_array(std::uint32_t device, void* array, unsigned levels);
void clean_old_array(std::uint32_t device, void* array, unsigned levels, std::uint64_t bytes);
std::uint64_t element_bytes(int format, unsigned channels);

// Streams of this process that are being captured now: nothing may be recorded, queried or waited for.
extern std::atomic<std::uint32_t> captures_active __attribute__((visibility("hidden")));
bool is_capturing(Stream stream, bool per_thread);

}  // namespace tranche::guard::cuda
