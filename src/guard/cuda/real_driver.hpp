// SPDX-License-Identifier: Apache-2.0
#pragma once
// The driver behind the guard: where its functions really are.
#include <atomic>
#include <cstdint>

#include "guard/cuda/driver_types.hpp"

namespace tranche::guard::cuda {

enum class Hook : std::uint32_t {
#define HOOK(name) name,
#include "guard/cuda/hooks.inc"
#undef HOOK
  kCount
};
inline constexpr auto kHookCount = static_cast<std::uint32_t>(Hook::kCount);

// Address in the real driver, or null where this driver has no such symbol.
void* real_address(Hook hook);
// A driver function that the guard calls but does not stand in front of.
void* driver_function(const char* symbol);
void* nvml_function(const char* symbol);
extern std::atomic<void*> real_addresses[kHookCount] __attribute__((visibility("hidden")));

template <class Function>
Function* real(Hook hook, Function*) {
  void* known = real_addresses[static_cast<std::uint32_t>(hook)].load(std::memory_order_acquire);
  if (__builtin_expect(known == nullptr, 0)) known = real_address(hook);
  return reinterpret_cast<Function*>(known);
}
template <class Function>
Function* real_if_known(Hook hook, Function*) {
  return reinterpret_cast<Function*>(
      real_addresses[static_cast<std::uint32_t>(hook)].load(std::memory_order_acquire));
}
// Null before the first call of a function, which has to look it up.
#define REAL_IF_KNOWN(name) ::tranche::guard::cuda::real_if_known(::tranche::guard::cuda::Hook::name, &name)
// REAL(cuMemFree_v2)(pointer): the driver's own function of the same type as ours.
#define REAL(name) ::tranche::guard::cuda::real(::tranche::guard::cuda::Hook::name, &name)

// DRIVER(cuCtxGetDevice, Result(Device*)) is the function or null; looked up once.
#define DRIVER(name, ...)                                                                      \
  ([]() -> ::std::add_pointer_t<__VA_ARGS__> {                                                 \
    static ::std::atomic<void*> found;                                                         \
    void* known = found.load(::std::memory_order_acquire);                                     \
    if (known == nullptr) found.store(known = ::tranche::guard::cuda::driver_function(#name)); \
    return reinterpret_cast<::std::add_pointer_t<__VA_ARGS__>>(known);                         \
  }())

// The symbol's hook when the guard stands in front of it, else null.
void* hook_for_symbol(const char* symbol);
// The hook that stands in front of this very driver function, else null.
void* hook_for_address(void* address);

// libc's own, never a hook's.
void* real_dlsym(void* handle, const char* symbol);

// Which device of the slice do calls of this thread go to? With one visible device there is nothing to ask.
extern std::atomic<int> visible_devices __attribute__((visibility("hidden")));
std::uint32_t current_device_slowly();
inline std::uint32_t current_device() {
  return visible_devices.load(std::memory_order_relaxed) == 1 ? 0 : current_device_slowly();
}

}  // namespace tranche::guard::cuda
