// SPDX-License-Identifier: Apache-2.0
// Modules and libraries: code, constants and variables that the driver puts on the device.
#include <type_traits>

#include "guard/cuda/images.hpp"
#include "guard/cuda/own_memory.hpp"

namespace tranche::guard::cuda {
namespace {

template <class Ask, class Undo>
Result load_image(const char* api, const Image& image, Ask ask, Undo undo) {
  const std::uint32_t device = current_device();
  if (device >= kDevicesMax || attach() != Attachment::kAttached) return ask();
  DeviceLedger& ledger = ledger_region()->devices[device];
  ImageBound bound;
  const auto bound_now = [&] {
    bound = bound_of(ledger, image);
    return OwnBound{bound.bytes, !bound.exact};
  };
  return with_own_memory(api, device, bound_now, ask, undo, [&](std::uint64_t took, bool fits) {
    if (!bound.exact) learn_image(ledger, image, took, fits);
  });
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuModuleUnload(void* module) {
  const Result outcome = REAL(cuModuleUnload)(module);
  if (outcome == kSuccess) settle_after_release("cuModuleUnload", current_device());
  return outcome;
}
GUARD_EXPORT Result cuLibraryUnload(void* library) {
  const Result outcome = REAL(cuLibraryUnload)(library);
  if (outcome == kSuccess) settle_after_release("cuLibraryUnload", current_device());
  return outcome;
}

#define GUARD_LOAD(name, unload, image, parameters, arguments)        \
  GUARD_EXPORT Result name parameters {                               \
    return load_image(                                                \
        #name,                                                        \
        image,                                                        \
        [&] { return REAL(name) arguments; },                         \
        [&] {                                                         \
          if (auto* undo = DRIVER(unload, Result(void*))) undo(*out); \
        });                                                           \
  }
GUARD_LOAD(cuModuleLoad, cuModuleUnload, image_in_file(file), (void** out, const char* file), (out, file))
GUARD_LOAD(cuModuleLoadData, cuModuleUnload, image_of(image), (void** out, const void* image), (out, image))
GUARD_LOAD(cuModuleLoadDataEx,
           cuModuleUnload,
           image_of(image),
           (void** out, const void* image, unsigned count, void* options, void** values),
           (out, image, count, options, values))
GUARD_LOAD(
    cuModuleLoadFatBinary, cuModuleUnload, image_of(image), (void** out, const void* image), (out, image))
GUARD_LOAD(cuLibraryLoadData,
           cuLibraryUnload,
           image_of(code),
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
           image_in_file(file),
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
