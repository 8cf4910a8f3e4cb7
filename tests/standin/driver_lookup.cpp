// SPDX-License-Identifier: Apache-2.0
// How programs find entry points, and the checkpoint calls that older drivers lack. TRANCHE_STANDIN_HIDE
// lists names that lookups deny; the library `old/libcuda.so.1` does not even export them.
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "driver.hpp"

namespace standin {
namespace {

bool hidden(const std::string& symbol) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    const char* list = std::getenv("TRANCHE_STANDIN_HIDE");
    std::istringstream text(list == nullptr ? "" : list);
    for (std::string name; std::getline(text, name, ',');) all.insert(name);
    return all;
  }();
  return names.contains(symbol);
}

CUresult look_up(
    const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  const SymbolVersion* best = nullptr;
  bool known = false;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const SharedState* shared = attach_state();
  const int driver_version = shared == nullptr ? 13000 : shared->config.driver_version;
  for (unsigned i = 0; i < kSymbolVersionCount; ++i) {
    const SymbolVersion& each = kSymbolVersions[i];
    if (std::strcmp(each.name, name) != 0 || each.version > driver_version || hidden(each.symbol)) continue;
    known = true;
    if (each.version <= version) best = &each;
  }
  const CUdriverProcAddressQueryResult result = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                                                : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (found != nullptr) *found = result;
  if (best == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = per_thread && best->per_thread_address != nullptr ? best->per_thread_address : best->address;
  return CUDA_SUCCESS;
}

// The slot of a process given as the caller knows it; kNone when there is none.
std::uint32_t slot_of(int pid) {
  const SharedState& shared = *driver().shared;
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot)
    if (shared.slots[slot].used.load() != 0 && visible_pid(shared, slot) == pid) return slot;
  return kNone;
}

enum ProcessMode : std::uint32_t { kRunning, kLocked, kCheckpointed };

CUresult change_mode(int pid, ProcessMode from, ProcessMode to) {
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (driver().config().checkpoint_supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const std::uint32_t slot = slot_of(pid);
  if (slot == kNone) return CUDA_ERROR_INVALID_VALUE;
  std::uint32_t expected = from;
  return driver().shared->slots[slot].locked.compare_exchange_strong(expected, to) ? CUDA_SUCCESS
                                                                                   : CUDA_ERROR_ILLEGAL_STATE;
}

}  // namespace
}  // namespace standin

using namespace standin;

STANDIN_API cuGetProcAddress(const char* name, void** out, int version, cuuint64_t flags) {
  STANDIN_ENTRY(cuGetProcAddress);
  return look_up(name, out, version, flags, nullptr);
}

STANDIN_API cuGetProcAddress_v2(
    const char* name, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  STANDIN_ENTRY(cuGetProcAddress_v2);
  return look_up(name, out, version, flags, found);
}

STANDIN_API cuGetExportTable(const void** table, const CUuuid*) {
  STANDIN_ENTRY(cuGetExportTable);
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

STANDIN_API cuCheckpointProcessLock(int pid, CUcheckpointLockArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessLock);
  return change_mode(pid, kRunning, kLocked);
}

STANDIN_API cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessUnlock);
  return change_mode(pid, kLocked, kRunning);
}

STANDIN_API cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessCheckpoint);
  return change_mode(pid, kLocked, kCheckpointed);
}

STANDIN_API cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs*) {
  STANDIN_ENTRY(cuCheckpointProcessRestore);
  return change_mode(pid, kCheckpointed, kLocked);
}

STANDIN_API cuCheckpointProcessGetState(int pid, CUprocessState* state) {
  STANDIN_ENTRY(cuCheckpointProcessGetState);
  if (const CUresult status = ready(); status != CUDA_SUCCESS) return status;
  if (driver().config().checkpoint_supported == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const std::uint32_t slot = slot_of(pid);
  if (slot == kNone) return CUDA_ERROR_INVALID_VALUE;
  *state = static_cast<CUprocessState>(driver().shared->slots[slot].locked.load());
  return CUDA_SUCCESS;
}

STANDIN_API cuCheckpointProcessGetRestoreThreadId(int pid, int* thread) {
  STANDIN_ENTRY(cuCheckpointProcessGetRestoreThreadId);
  *thread = pid;
  return CUDA_SUCCESS;
}
