// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the driver takes on its own account: contexts, modules, stacks. An upper bound is reserved before it
// is asked, and settled afterwards by what the device reports for this process.
#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {

// The device reports one figure for the whole process, so only one such call is under way in a process. A
// child does not inherit its parent's turn.
class OwnMemoryTurn {
 public:
  OwnMemoryTurn();
  ~OwnMemoryTurn();
  OwnMemoryTurn(const OwnMemoryTurn&) = delete;
  OwnMemoryTurn& operator=(const OwnMemoryTurn&) = delete;
};

struct OwnBound {
  std::uint64_t bytes = 0;
  bool learns = false;  // The caller wants to know exactly what was taken.
};

// These three belong to whoever has the turn.
bool reserve_own_memory(const char* api, std::uint32_t device, std::uint64_t bytes);
// Brings the account in line with what the device reports. False: that went over the limit, by `lacked`
// bytes.
bool settle_own_memory(const char* api, std::uint32_t device, std::uint64_t* lacked = nullptr);
std::uint64_t own_memory_of(std::uint32_t device);

// After something that held such memory is gone.
inline void settle_after_release(const char* api, std::uint32_t device) {
  const OwnMemoryTurn turn;
  settle_own_memory(api, device);
}

// Reserves, asks the driver, settles; where the bound was too low and the limit has no room, undoes it before
// the program can use it. `bound_now` says the bound once it is this call's turn: the one before may have
// taught it. `took` is told what a call that succeeded added, and whether that fitted: if not, it is refused
// before the driver is asked the next time.
template <class Bound, class Ask, class Undo, class Took>
Result with_own_memory(
    const char* api, std::uint32_t device, Bound bound_now, Ask ask, Undo undo, Took took) {
  if (device >= kDevicesMax) return ask();
  const OwnMemoryTurn turn;
  const OwnBound bound = bound_now();
  if (bound.learns) settle_own_memory(api, device);  // So that the difference is this call's alone.
  const std::uint64_t before = own_memory_of(device);
  if (!reserve_own_memory(api, device, bound.bytes)) return kOutOfMemory;
  const Result outcome = ask();
  std::uint64_t lacked = 0;
  const bool fits = settle_own_memory(api, device, &lacked);
  const std::uint64_t after = own_memory_of(device) + lacked;
  if (outcome == kSuccess) took(after > before ? after - before : 0, fits);
  if (outcome != kSuccess || fits) return outcome;
  undo();
  settle_own_memory(api, device);
  return kOutOfMemory;
}

}  // namespace tranche::guard::cuda
