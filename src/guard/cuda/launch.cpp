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

#define GUARD_LAUNCH(name, kind)                                                              \
  GUARD_EXPORT Result name(void* function,                                                    \
                           unsigned gx,                                                       \
                           unsigned gy,                                                       \
                           unsigned gz,                                                       \
                           unsigned bx,                                                       \
                           unsigned by,                                                       \
                           unsigned bz,                                                       \
                           unsigned shared,                                                   \
                           Stream stream,                                                     \
                           void** parameters,                                                 \
                           void** extra) {                                                    \
    const unsigned grid[3] = {gx, gy, gz};                                                    \
    const unsigned block[3] = {bx, by, bz};                                                   \
    return launch(grid_key(function, grid, block), stream, kind, [&] {                        \
      return REAL(name)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra); \
    });                                                                                       \
  }
GUARD_LAUNCH(cuLaunchKernel, StreamKind::kLegacy)
GUARD_LAUNCH(cuLaunchKernel_ptsz, StreamKind::kPerThread)
#undef GUARD_LAUNCH

#define GUARD_LAUNCH(name, kind)                                                       \
  GUARD_EXPORT Result name(void* function,                                             \
                           unsigned gx,                                                \
                           unsigned gy,                                                \
                           unsigned gz,                                                \
                           unsigned bx,                                                \
                           unsigned by,                                                \
                           unsigned bz,                                                \
                           unsigned shared,                                            \
                           Stream stream,                                              \
                           void** parameters) {                                        \
    const unsigned grid[3] = {gx, gy, gz};                                             \
    const unsigned block[3] = {bx, by, bz};                                            \
    return launch(grid_key(function, grid, block), stream, kind, [&] {                 \
      return REAL(name)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters); \
    });                                                                                \
  }
GUARD_LAUNCH(cuLaunchCooperativeKernel, StreamKind::kLegacy)
GUARD_LAUNCH(cuLaunchCooperativeKernel_ptsz, StreamKind::kPerThread)
#undef GUARD_LAUNCH

#define GUARD_LAUNCH(name, kind)                                                                          \
  GUARD_EXPORT Result name(const LaunchConfig* config, void* function, void** parameters, void** extra) { \
    if (config == nullptr) return REAL(name)(config, function, parameters, extra);                        \
    return launch(grid_key(function, config->grid, config->block), config->stream, kind, [&] {            \
      return REAL(name)(config, function, parameters, extra);                                             \
    });                                                                                                   \
  }
GUARD_LAUNCH(cuLaunchKernelEx, StreamKind::kLegacy)
GUARD_LAUNCH(cuLaunchKernelEx_ptsz, StreamKind::kPerThread)
#undef GUARD_LAUNCH

GUARD_EXPORT Result cuLaunchCooperativeKernelMultiDevice(MultiDeviceLaunch* list,
                                                         unsigned count,
                                                         unsigned flags) {
  if (list == nullptr || count == 0) return REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
  return launch(
      grid_key(list[0].function, list[0].grid, list[0].block), list[0].stream, StreamKind::kLegacy, [&] {
        return REAL(cuLaunchCooperativeKernelMultiDevice)(list, count, flags);
      });
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
