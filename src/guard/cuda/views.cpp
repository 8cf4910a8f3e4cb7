// SPDX-License-Identifier: Apache-2.0
// A device of the size that was given: what memory queries of the driver answer.
#include <algorithm>
#include <type_traits>

#include "guard/cuda/objects.hpp"

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT
using Result = tranche::guard::cuda::Result;

GUARD_EXPORT Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  std::size_t real_free = 0;
  std::size_t real_total = 0;
  const Result outcome = REAL(cuMemGetInfo_v2)(&real_free, &real_total);
  if (outcome != kSuccess) return outcome;
  const std::uint32_t device = current_device();
  if (free != nullptr) *free = visible_free(device, real_free);
  if (total != nullptr) *total = visible_total(device, real_total);
  return outcome;
}

GUARD_EXPORT Result cuMemGetInfo(unsigned* free, unsigned* total) {
  std::size_t wide_free = 0;
  std::size_t wide_total = 0;
  const Result outcome = cuMemGetInfo_v2(&wide_free, &wide_total);
  if (outcome != kSuccess) return outcome;
  if (free != nullptr) *free = static_cast<unsigned>(std::min<std::size_t>(wide_free, UINT32_MAX));
  if (total != nullptr) *total = static_cast<unsigned>(std::min<std::size_t>(wide_total, UINT32_MAX));
  return outcome;
}

GUARD_EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  const Result outcome = REAL(cuDeviceTotalMem_v2)(bytes, device);
  if (outcome == kSuccess && bytes != nullptr && attach() == Attachment::kAttached)
    *bytes = visible_total(static_cast<std::uint32_t>(device), *bytes);
  return outcome;
}

GUARD_EXPORT Result cuDeviceTotalMem(unsigned* bytes, Device device) {
  std::size_t wide = 0;
  const Result outcome = cuDeviceTotalMem_v2(&wide, device);
  if (outcome == kSuccess && bytes != nullptr)
    *bytes = static_cast<unsigned>(std::min<std::size_t>(wide, UINT32_MAX));
  return outcome;
}
