// SPDX-License-Identifier: Apache-2.0
// What the driver takes on its own account: contexts, modules, stacks. Sized by what the device reports.
#include <type_traits>
#include <unistd.h>

#include "guard/cuda/objects.hpp"
#include "guard/session.hpp"

namespace tranche::guard::cuda {
namespace {

std::atomic<std::uint64_t> own_memory[kDevicesMax];  // NOLINT: charged beyond what the program asked for.

struct ProcessInfo {  // nvmlProcessInfo_t of the v2 and v3 calls
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

// Bytes of this process on the device, as the device itself counts them; false when it does not tell.
bool reported_bytes(std::uint32_t device, std::uint64_t& bytes) {
  auto* init = reinterpret_cast<int (*)()>(nvml_function("nvmlInit_v2"));
  auto* get = reinterpret_cast<int (*)(unsigned, void**)>(nvml_function("nvmlDeviceGetHandleByIndex_v2"));
  auto* list = reinterpret_cast<int (*)(void*, unsigned*, ProcessInfo*)>(
      nvml_function("nvmlDeviceGetComputeRunningProcesses_v3"));
  static std::atomic<bool> ready;
  void* handle = nullptr;
  if (init == nullptr || get == nullptr || list == nullptr) return false;
  if (!ready.load() && init() != 0) return false;
  ready.store(true);
  ProcessInfo found[256];
  unsigned count = 256;
  if (get(device, &handle) != 0 || list(handle, &count, found) != 0) return false;
  const auto own = static_cast<unsigned>(::getpid());
  for (unsigned i = 0; i < count && i < 256; ++i) {
    if (found[i].pid != own) continue;
    bytes = found[i].used_bytes;
    return true;
  }
  return false;
}

// After a context is gone the driver has freed what was in it: forget what it no longer knows.
void forget_freed() {
  auto* attribute = DRIVER(cuPointerGetAttribute, Result(void*, int, Pointer));
  if (attribute == nullptr) return;
  memory_table.remove_if(
      [&](const TableEntry& entry) {
        unsigned type = 0;
        return entry.kind == kPlain && attribute(&type, 2, entry.key) != kSuccess;
      },
      [](const TableEntry& entry) { release(entry.device, entry.bytes); });
}

// What a context takes is known once one was made: from then on it is reserved first.
template <class Ask, class Undo>
Result make_context(const char* api, std::uint32_t device, Ask ask, Undo undo) {
  if (device >= kDevicesMax) return ask();
  Word64& typical = ledger_region()->devices[device].context_bytes;
  const std::uint64_t guess = typical.load();
  const std::uint64_t before = own_memory[device].load();
  const VramAnswer answer = reserve(device, guess);
  if (!answer.granted) {
    log_refusal(api, device, guess, answer);
    return kOutOfMemory;
  }
  own_memory[device].fetch_add(guess);
  const Result outcome = ask();
  const bool fits = settle_own_memory(api, device);
  const std::uint64_t after = own_memory[device].load();
  if (outcome == kSuccess && after > before && after - before > guess) typical.store(after - before);
  if (outcome != kSuccess || fits) return outcome;
  undo();
  settle_own_memory(api, device);
  return kOutOfMemory;
}

template <class Ask, class Undo>
Result with_own_memory(const char* api, std::uint32_t device, Ask ask, Undo undo) {
  const Result outcome = ask();
  if (outcome != kSuccess || settle_own_memory(api, device)) return outcome;
  undo();
  settle_own_memory(api, device);
  return kOutOfMemory;
}

bool refused() {
  return attach() != Attachment::kAttached;
}

}  // namespace

bool settle_own_memory(const char* api, std::uint32_t device) {
  std::uint64_t reported = 0;
  if (device >= kDevicesMax || !has_slot()) return true;
  settle_pools();  // What pools gave back since must not be taken for memory of the driver's own.
  if (!reported_bytes(device, reported)) return true;
  const std::uint64_t accounted = VramAccount(ledger_region(), device).used_by(session.slot.load());
  const std::uint64_t before = own_memory[device].load();
  const std::uint64_t asked = accounted > before ? accounted - before : 0;
  const std::uint64_t wanted = reported > asked ? reported - asked : 0;
  Word64& told = ledger_region()->processes[session.slot.load()].own[device];
  if (wanted <= before) {
    own_memory[device].store(wanted);
    told.store(wanted);
    release(device, before - wanted);
    return true;
  }
  const VramAnswer answer = reserve(device, wanted - before);
  if (!answer.granted) {
    log_refusal(api, device, wanted - before, answer);
    return false;
  }
  own_memory[device].store(wanted);
  told.store(wanted);
  return true;
}

}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuInit(unsigned flags) {
  if (refused()) return kNoDevice;
  return REAL(cuInit)(flags);
}

#define GUARD_CONTEXT(name, parameters, arguments, device)                             \
  GUARD_EXPORT Result name parameters {                                                \
    if (refused()) return kNoDevice;                                                   \
    return make_context(                                                               \
        #name,                                                                         \
        static_cast<std::uint32_t>(device),                                            \
        [&] { return REAL(name) arguments; },                                          \
        [&] {                                                                          \
          if (auto* destroy = DRIVER(cuCtxDestroy_v2, Result(Context))) destroy(*out); \
        });                                                                            \
  }
GUARD_CONTEXT(cuCtxCreate, (Context * out, unsigned flags, Device device), (out, flags, device), device)
GUARD_CONTEXT(cuCtxCreate_v2, (Context * out, unsigned flags, Device device), (out, flags, device), device)
GUARD_CONTEXT(cuCtxCreate_v3,
              (Context * out, void* affinity, int count, unsigned flags, Device device),
              (out, affinity, count, flags, device),
              device)
GUARD_CONTEXT(cuCtxCreate_v4,
              (Context * out, void* settings, unsigned flags, Device device),
              (out, settings, flags, device),
              device)
#undef GUARD_CONTEXT

GUARD_EXPORT Result cuDevicePrimaryCtxRetain(Context* out, Device device) {
  if (refused()) return kNoDevice;
  return make_context(
      "cuDevicePrimaryCtxRetain",
      static_cast<std::uint32_t>(device),
      [&] { return REAL(cuDevicePrimaryCtxRetain)(out, device); },
      [&] {
        if (auto* undo = DRIVER(cuDevicePrimaryCtxRelease_v2, Result(Device))) undo(device);
      });
}
GUARD_EXPORT Result cuGreenCtxCreate(void** out, void* description, Device device, unsigned flags) {
  if (refused()) return kNoDevice;
  return make_context(
      "cuGreenCtxCreate",
      static_cast<std::uint32_t>(device),
      [&] { return REAL(cuGreenCtxCreate)(out, description, device, flags); },
      [&] {
        if (auto* undo = DRIVER(cuGreenCtxDestroy, Result(void*))) undo(*out);
      });
}

#define GUARD_RELEASE(name, type, device)      \
  GUARD_EXPORT Result name(type object) {      \
    const std::uint32_t where = device;        \
    const Result outcome = REAL(name)(object); \
    if (outcome == kSuccess) {                 \
      forget_freed();                          \
      settle_own_memory(#name, where);         \
    }                                          \
    return outcome;                            \
  }
GUARD_RELEASE(cuCtxDestroy, Context, current_device())
GUARD_RELEASE(cuCtxDestroy_v2, Context, current_device())
GUARD_RELEASE(cuDevicePrimaryCtxRelease, Device, static_cast<std::uint32_t>(object))
GUARD_RELEASE(cuDevicePrimaryCtxRelease_v2, Device, static_cast<std::uint32_t>(object))
GUARD_RELEASE(cuDevicePrimaryCtxReset, Device, static_cast<std::uint32_t>(object))
GUARD_RELEASE(cuDevicePrimaryCtxReset_v2, Device, static_cast<std::uint32_t>(object))
GUARD_RELEASE(cuGreenCtxDestroy, void*, current_device())
#undef GUARD_RELEASE

GUARD_EXPORT Result cuModuleUnload(void* module) {
  const Result outcome = REAL(cuModuleUnload)(module);
  if (outcome == kSuccess) settle_own_memory("cuModuleUnload", current_device());
  return outcome;
}
GUARD_EXPORT Result cuLibraryUnload(void* library) {
  const Result outcome = REAL(cuLibraryUnload)(library);
  if (outcome == kSuccess) settle_own_memory("cuLibraryUnload", current_device());
  return outcome;
}

#define GUARD_LOAD(name, unload, parameters, arguments)               \
  GUARD_EXPORT Result name parameters {                               \
    return with_own_memory(                                           \
        #name,                                                        \
        current_device(),                                             \
        [&] { return REAL(name) arguments; },                         \
        [&] {                                                         \
          if (auto* undo = DRIVER(unload, Result(void*))) undo(*out); \
        });                                                           \
  }
GUARD_LOAD(cuModuleLoad, cuModuleUnload, (void** out, const char* file), (out, file))
GUARD_LOAD(cuModuleLoadData, cuModuleUnload, (void** out, const void* image), (out, image))
GUARD_LOAD(cuModuleLoadDataEx,
           cuModuleUnload,
           (void** out, const void* image, unsigned count, void* options, void** values),
           (out, image, count, options, values))
GUARD_LOAD(cuModuleLoadFatBinary, cuModuleUnload, (void** out, const void* image), (out, image))
GUARD_LOAD(cuLibraryLoadData,
           cuLibraryUnload,
           (void** out,
            const void* code,
            void* jit,
            void** jit_values,
            unsigned jit_count,
            void* options,
            void** values,
            unsigned count),
           (out, code, jit, jit_values, jit_count, options, values, count))
GUARD_LOAD(cuLibraryLoadFromFile,
           cuLibraryUnload,
           (void** out,
            const char* file,
            void* jit,
            void** jit_values,
            unsigned jit_count,
            void* options,
            void** values,
            unsigned count),
           (out, file, jit, jit_values, jit_count, options, values, count))
#undef GUARD_LOAD

GUARD_EXPORT Result cuCtxSetLimit(int limit, std::size_t value) {
  return with_own_memory(
      "cuCtxSetLimit", current_device(), [&] { return REAL(cuCtxSetLimit)(limit, value); }, [] {});
}
