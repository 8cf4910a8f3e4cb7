// SPDX-License-Identifier: Apache-2.0
// Every way a program finds a driver function: linked, dlsym, dlvsym, dlopen by any path, cuGetProcAddress.
#include <cstring>
#include <dlfcn.h>
#include <type_traits>

#include "guard/cuda/libc_symbols.hpp"
#include "guard/cuda/real_driver.hpp"
#include "guard/front.hpp"

namespace tranche::guard::cuda {

std::atomic<void*> real_addresses[kHookCount];  // NOLINT: filled as functions are first used.

namespace {

const char* const kSymbols[] = {
#define HOOK(name) #name,
#include "guard/cuda/hooks.inc"
#undef HOOK
};

using DlsymFunction = void*(void*, const char*);
using DlvsymFunction = void*(void*, const char*, const char*);
using DlopenFunction = void*(const char*, int);
using DlmopenFunction = void*(long, const char*, int);

template <class Function>
Function* libc(const char* name, std::atomic<void*>& slot) {
  void* known = slot.load(std::memory_order_acquire);
  if (known == nullptr) slot.store(known = libc_function(name), std::memory_order_release);
  return reinterpret_cast<Function*>(known);
}
std::atomic<void*> dlsym_slot, dlvsym_slot, dlopen_slot, dlmopen_slot;  // NOLINT

void* library(std::atomic<void*>& slot, const char* name) {
  void* known = slot.load(std::memory_order_acquire);
  if (known == nullptr) {
    known = libc<DlopenFunction>("dlopen", dlopen_slot)(name, RTLD_LAZY | RTLD_LOCAL);
    slot.store(known, std::memory_order_release);
  }
  return known;
}
std::atomic<void*> cuda_library, nvml_library;  // NOLINT

void* const own_marker = reinterpret_cast<void*>(&real_address);

// Our own address of a symbol: what the dynamic linker exports from this library.
void* own_symbol(const char* symbol) {
  Dl_info info{};
  if (::dladdr(own_marker, &info) == 0) return nullptr;
  static std::atomic<void*> self;
  void* handle = self.load();
  if (handle == nullptr) {
    handle = libc<DlopenFunction>("dlopen", dlopen_slot)(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    self.store(handle);
  }
  return handle == nullptr ? nullptr : real_dlsym(handle, symbol);
}

std::atomic<void*> hook_addresses[kHookCount];  // NOLINT

void* own_hook(std::uint32_t index) {
  void* known = hook_addresses[index].load(std::memory_order_acquire);
  if (known == nullptr) hook_addresses[index].store(known = own_symbol(kSymbols[index]));
  return known;
}

bool names_driver(const char* symbol) {
  return symbol != nullptr &&
         ((symbol[0] == 'c' && symbol[1] == 'u' && symbol[2] >= 'A' && symbol[2] <= 'Z') ||
          std::strncmp(symbol, "nvml", 4) == 0);
}

// What a look-up by exact symbol found: the driver's function becomes ours, unless it is ours already.
void* guarded(void* found, const char* symbol) {
  if (found == nullptr) return nullptr;
  void* hook = hook_for_symbol(symbol);
  return hook == nullptr ? found : hook;
}

}  // namespace

void* real_dlsym(void* handle, const char* symbol) {
  return libc<DlsymFunction>("dlsym", dlsym_slot)(handle, symbol);
}

void* driver_function(const char* symbol) {
  void* cuda = library(cuda_library, "libcuda.so.1");
  return cuda == nullptr ? nullptr : real_dlsym(cuda, symbol);
}

void* nvml_function(const char* symbol) {
  void* nvml = library(nvml_library, "libnvidia-ml.so.1");
  return nvml == nullptr ? nullptr : real_dlsym(nvml, symbol);
}

void* real_address(Hook hook) {
  const auto index = static_cast<std::uint32_t>(hook);
  const char* symbol = kSymbols[index];
  void* found = symbol[0] == 'n' ? nvml_function(symbol) : driver_function(symbol);
  real_addresses[index].store(found, std::memory_order_release);
  return found;
}

void* hook_for_symbol(const char* symbol) {
  for (std::uint32_t i = 0; i < kHookCount; ++i)
    if (std::strcmp(kSymbols[i], symbol) == 0) return own_hook(i);
  return nullptr;
}

void* hook_for_address(void* address) {
  for (std::uint32_t i = 0; i < kHookCount; ++i)
    if (kSymbols[i][0] == 'c' &&
        real(static_cast<Hook>(i), static_cast<void (*)()>(nullptr)) == reinterpret_cast<void (*)()>(address))
      return own_hook(i);
  return nullptr;
}

std::atomic<int> visible_devices;  // NOLINT

std::uint32_t current_device_slowly() {
  int devices = visible_devices.load(std::memory_order_relaxed);
  if (devices == 0) {
    auto* get_count = DRIVER(cuDeviceGetCount, Result(int*));
    if (get_count == nullptr || get_count(&devices) != kSuccess || devices < 1) return 0;
    visible_devices.store(devices, std::memory_order_relaxed);
  }
  if (devices == 1) return 0;
  Device device = 0;
  auto* get = DRIVER(cuCtxGetDevice, Result(Device*));
  return get != nullptr && get(&device) == kSuccess && device >= 0 ? static_cast<std::uint32_t>(device) : 0;
}

namespace {

// The driver answered a look-up by base name. It may hand out the exported function or an inner one, so look
// by address first and by the name of each version after.
void* guarded_base_name(const char* name, void* found, int version, bool per_thread) {
  if (found == nullptr || !names_driver(name)) return found;
  if (void* hook = hook_for_address(found)) return hook;
  char symbol[96];
  const std::size_t length = std::strlen(name);
  if (length + 16 > sizeof symbol) return found;
  for (const char* suffix : {per_thread ? "_v2_ptsz" : "_v2",
                             per_thread ? "_v2_ptds" : "_v2",
                             per_thread ? "_ptsz" : "",
                             per_thread ? "_ptds" : ""}) {
    std::memcpy(symbol, name, length);
    std::strcpy(symbol + length, suffix);
    if (driver_function(symbol) == found) break;  // Exported and not hooked: a function we pass through.
    if (version >= 3020 && driver_function(symbol) != nullptr)
      if (void* hook = hook_for_symbol(symbol)) return hook;
  }
  return found;
}

constexpr std::uint64_t kPerThreadDefaultStream = 2;

}  // namespace
}  // namespace tranche::guard::cuda

using tranche::guard::cuda::Result;

GUARD_EXPORT Result cuGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags) {
  const Result outcome = REAL(cuGetProcAddress)(symbol, function, version, flags);
  if (outcome == 0 && function != nullptr && symbol != nullptr)
    *function = tranche::guard::cuda::guarded_base_name(
        symbol, *function, version, (flags & tranche::guard::cuda::kPerThreadDefaultStream) != 0);
  return outcome;
}

GUARD_EXPORT Result
cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t flags, void* status) {
  const Result outcome = REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
  if (outcome == 0 && function != nullptr && symbol != nullptr)
    *function = tranche::guard::cuda::guarded_base_name(
        symbol, *function, version, (flags & tranche::guard::cuda::kPerThreadDefaultStream) != 0);
  return outcome;
}

// The four of libc. Whatever is none of our business goes on as a tail call, so that libc sees the true
// caller (RTLD_NEXT, $ORIGIN).
GUARD_EXPORT void* dlsym(void* handle, const char* symbol) {
  using namespace tranche::guard::cuda;
  auto* real_function = libc<DlsymFunction>("dlsym", dlsym_slot);
  if (__builtin_expect(!names_driver(symbol), 1)) return real_function(handle, symbol);
  return guarded(real_function(handle, symbol), symbol);
}

GUARD_EXPORT void* dlvsym(void* handle, const char* symbol, const char* version) {
  using namespace tranche::guard::cuda;
  auto* real_function = libc<DlvsymFunction>("dlvsym", dlvsym_slot);
  if (__builtin_expect(!names_driver(symbol), 1)) return real_function(handle, symbol, version);
  return guarded(real_function(handle, symbol, version), symbol);
}

GUARD_EXPORT void* dlopen(const char* file, int mode) {
  using namespace tranche::guard::cuda;
  // With RTLD_DEEPBIND a library would find the driver before it finds us.
  return libc<DlopenFunction>("dlopen", dlopen_slot)(file, mode & ~RTLD_DEEPBIND);
}

GUARD_EXPORT void* dlmopen(long space, const char* file, int mode) {
  using namespace tranche::guard::cuda;
  // A second world of libraries would have a driver of its own. The driver stays in the first one.
  if (file != nullptr &&
      (std::strstr(file, "libcuda.so") != nullptr || std::strstr(file, "libnvidia-ml.so") != nullptr))
    return libc<DlopenFunction>("dlopen", dlopen_slot)(file, mode & ~RTLD_DEEPBIND);
  return libc<DlmopenFunction>("dlmopen", dlmopen_slot)(space, file, mode);
}
