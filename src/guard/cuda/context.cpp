// SPDX-License-Identifier: Apache-2.0
// Contexts, and what they hold beside memory that was asked for.
#include <type_traits>

#include "guard/context_size.hpp"
#include "guard/cuda/own_memory.hpp"
#include "guard/session.hpp"

namespace tranche::guard::cuda {
namespace {

constexpr int kStackSize = 0;  // CUlimit
constexpr int kPrintBuffer = 1;
constexpr int kHeapSize = 2;
constexpr int kMultiprocessors = 16;  // CUdevice_attribute
constexpr int kThreadsOfMultiprocessor = 39;

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

// A context takes with it what was not freed, as it is.
void announce_dirt(std::uint32_t device) {
  std::uint64_t bytes = 0;
  memory_table.remove_if(
      [&](const TableEntry& entry) {
        if (entry.device == device) bytes += entry.bytes;
        return false;
      },
      [](const TableEntry&) {});
  if (!may_go_back_dirty(device, bytes)) report_dirty(device, bytes);
}

template <class Ask, class Undo>
Result make_context(const char* api, std::uint32_t device, Ask ask, Undo undo) {
  if (device >= kDevicesMax) return ask();
  ContextSize size(*ledger_region(), device, session.slot.load());
  const auto bound_now = [&] {
    const std::uint64_t bytes = size.learn_or_claim();
    return OwnBound{bytes, bytes == 0};
  };
  return with_own_memory(
      api, device, bound_now, ask, undo, [&](std::uint64_t took, bool) { size.tell(took); });
}

std::size_t attribute_of(Device device, int attribute) {
  int value = 0;
  auto* ask = DRIVER(cuDeviceGetAttribute, Result(int*, int, Device));
  return ask != nullptr && ask(&value, attribute, device) == kSuccess && value > 0
             ? static_cast<std::size_t>(value)
             : 0;
}

// Stacks of all threads that can be resident, and buffers in device memory: at most this much more.
std::uint64_t growth_of(int limit, std::size_t now, std::size_t wanted, std::uint32_t device) {
  if (wanted <= now || limit < kStackSize || limit > kHeapSize) return 0;
  if (limit != kStackSize) return wanted - now;
  const auto number = static_cast<Device>(device);
  const std::size_t threads =
      attribute_of(number, kMultiprocessors) * attribute_of(number, kThreadsOfMultiprocessor);
  std::uint64_t bytes = 0;
  return __builtin_mul_overflow(wanted - now, threads, &bytes) ? UINT64_MAX : bytes;
}

// One more holder of the primary context takes no memory.
bool primary_is_active(Device device) {
  unsigned flags = 0;
  int active = 0;
  auto* ask = DRIVER(cuDevicePrimaryCtxGetState, Result(Device, unsigned*, int*));
  return ask != nullptr && ask(device, &flags, &active) == kSuccess && active != 0;
}

bool refused() {
  return attach() != Attachment::kAttached;
}

}  // namespace
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
  if (primary_is_active(device)) return REAL(cuDevicePrimaryCtxRetain)(out, device);
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
    announce_dirt(where);                      \
    const Result outcome = REAL(name)(object); \
    if (outcome == kSuccess) {                 \
      forget_freed();                          \
      settle_after_release(#name, where);      \
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

GUARD_EXPORT Result cuCtxSetLimit(int limit, std::size_t value) {
  const std::uint32_t device = current_device();
  std::size_t now = 0;
  if (auto* ask = DRIVER(cuCtxGetLimit, Result(std::size_t*, int))) ask(&now, limit);
  return with_own_memory(
      "cuCtxSetLimit",
      device,
      [&] { return OwnBound{growth_of(limit, now, value, device), false}; },
      [&] { return REAL(cuCtxSetLimit)(limit, value); },
      [&] { REAL(cuCtxSetLimit)(limit, now); },
      [](std::uint64_t, bool) {});
}
