// SPDX-License-Identifier: Apache-2.0
// Every way to start a kernel: plain, extended, cooperative, and the interfaces before them.
#include "guard/cuda/launch.hpp"

#include <type_traits>

namespace tranche::guard::cuda {
const char device_work_marks[8] = {};
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

namespace {
// Runs before main of any program that has us: measures are collected by whoever waits.
__attribute__((constructor)) void begin() {
  set_poll(&poll_measures);
}
}  // namespace

// Almost every launch takes the short way: no call but the driver's own, which returns straight to the
// program, and no parameter that is moved. Everything else is out of line, so that it costs the short way
// nothing; and it begins with a line of memory, because where it lay by chance cost up to 6 ns.
#define GUARD_LAUNCH(name, kind, key, stream, parameters, arguments)                    \
  GUARD_EXPORT Result name parameters __attribute__((aligned(64)));                     \
  __attribute__((noinline, cold)) static Result name##_slowly parameters {              \
    return launch(key, stream, kind, [&] { return REAL(name) arguments; });             \
  }                                                                                     \
  GUARD_EXPORT Result name parameters {                                                 \
    if (auto* ask = REAL_IF_KNOWN(name); ask != nullptr && passes_at_once(key, stream)) \
      return ask arguments;                                                             \
    return name##_slowly arguments;                                                     \
  }

#define GUARD_KERNEL(name, kind)                               \
  GUARD_LAUNCH(name,                                           \
               kind,                                           \
               grid_key(function, {gx, gy, gz}, {bx, by, bz}), \
               stream,                                         \
               (void* function,                                \
                unsigned gx,                                   \
                unsigned gy,                                   \
                unsigned gz,                                   \
                unsigned bx,                                   \
                unsigned by,                                   \
                unsigned bz,                                   \
                unsigned shared,                               \
                Stream stream,                                 \
                void** parameters,                             \
                void** extra),                                 \
               (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))
GUARD_KERNEL(cuLaunchKernel, StreamKind::kLegacy)
GUARD_KERNEL(cuLaunchKernel_ptsz, StreamKind::kPerThread)
#undef GUARD_KERNEL

#define GUARD_KERNEL(name, kind)                               \
  GUARD_LAUNCH(name,                                           \
               kind,                                           \
               grid_key(function, {gx, gy, gz}, {bx, by, bz}), \
               stream,                                         \
               (void* function,                                \
                unsigned gx,                                   \
                unsigned gy,                                   \
                unsigned gz,                                   \
                unsigned bx,                                   \
                unsigned by,                                   \
                unsigned bz,                                   \
                unsigned shared,                               \
                Stream stream,                                 \
                void** parameters),                            \
               (function, gx, gy, gz, bx, by, bz, shared, stream, parameters))
GUARD_KERNEL(cuLaunchCooperativeKernel, StreamKind::kLegacy)
GUARD_KERNEL(cuLaunchCooperativeKernel_ptsz, StreamKind::kPerThread)
#undef GUARD_KERNEL

#define GUARD_KERNEL(name, kind)                                                              \
  GUARD_LAUNCH(name,                                                                          \
               kind,                                                                          \
               config_key(config, function),                                                  \
               config == nullptr ? nullptr : config->stream,                                  \
               (const LaunchConfig* config, void* function, void** parameters, void** extra), \
               (config, function, parameters, extra))
GUARD_KERNEL(cuLaunchKernelEx, StreamKind::kLegacy)
GUARD_KERNEL(cuLaunchKernelEx_ptsz, StreamKind::kPerThread)
#undef GUARD_KERNEL
#undef GUARD_LAUNCH

GUARD_EXPORT Result cuLaunchCooperativeKernelMultiDevice(MultiDeviceLaunch* list,
                                                         unsigned count,
                                                         unsigned flags) {
  if (list == nullptr || count == 0) return REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
  return launch(grid_key(list[0].function, extent(list[0].grid), extent(list[0].block)),
                list[0].stream,
                StreamKind::kLegacy,
                [&] { return REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags); });
}

GUARD_EXPORT Result cuLaunch(void* function) {
  return launch(
      kernel_key(function, 1, 0), nullptr, StreamKind::kLegacy, [&] { return REAL(cuLaunch)(function); });
}
GUARD_EXPORT Result cuLaunchGrid(void* function, int width, int height) {
  const std::uint64_t blocks =
      std::uint64_t{static_cast<unsigned>(width)} * 0x10001U + static_cast<unsigned>(height);
  return launch(kernel_key(function, blocks, 0), nullptr, StreamKind::kLegacy, [&] {
    return REAL(cuLaunchGrid)(function, width, height);
  });
}
GUARD_EXPORT Result cuLaunchGridAsync(void* function, int width, int height, Stream stream) {
  const std::uint64_t blocks =
      std::uint64_t{static_cast<unsigned>(width)} * 0x10001U + static_cast<unsigned>(height);
  return launch(kernel_key(function, blocks, 0), stream, StreamKind::kLegacy, [&] {
    return REAL(cuLaunchGridAsync)(function, width, height, stream);
  });
}
