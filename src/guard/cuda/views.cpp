// SPDX-License-Identifier: Apache-2.0
// A device of the size that was given: what memory queries answer, in the driver and in NVML.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "guard/cuda/objects.hpp"

namespace tranche::guard::cuda {
namespace {

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

// Which device of the slice is this NVML handle? By UUID where the limits name one, by index otherwise.
bool device_of(void* handle, std::uint32_t& device) {
  const ControlRegion* control = control_region();
  if (control == nullptr) return false;
  char uuid[96] = {};
  auto* get_uuid = reinterpret_cast<int (*)(void*, char*, unsigned)>(nvml_function("nvmlDeviceGetUUID"));
  const bool has_uuid = get_uuid != nullptr && get_uuid(handle, uuid, sizeof uuid) == 0;
  for (std::uint32_t i = 0; has_uuid && i < control->device_count.load(); ++i) {
    device = i;
    if (control->devices[i].uuid[0] != 0 && std::strncmp(control->devices[i].uuid, uuid, 39) == 0)
      return true;
  }
  unsigned index = 0;
  auto* get_index = reinterpret_cast<int (*)(void*, unsigned*)>(nvml_function("nvmlDeviceGetIndex"));
  if (get_index == nullptr || get_index(handle, &index) != 0 || index >= control->device_count.load())
    return false;
  device = index;
  return control->devices[index].uuid[0] == 0;
}

std::uint64_t used_in_slice(std::uint32_t device) {
  return VramAccount(ledger_region(), device).used();
}

// Only the tenant's own processes: those with a slot in this PID namespace.
bool is_own(unsigned pid) {
  const LedgerRegion* ledger = ledger_region();
  if (ledger == nullptr) return false;
  const std::uint32_t space = own_identity().pid_namespace;
  for (const ProcessSlot& slot : ledger->processes) {
    const ProcessIdentity owner = unpack_identity(slot.identity.load());
    if (owner.pid == pid && owner.pid_namespace == space) return true;
  }
  return false;
}

constexpr int kNvmlInsufficientSize = 7;
constexpr unsigned kListMax = 1024;

// The processes of a device as a tenant may see them. `Info` is the entry of the version that was called.
template <class Info, class List>
int list_processes(List list, void* device, unsigned* count, Info* out) {
  if (count == nullptr) return list(device, count, out);
  Info all[kListMax];  // On the stack: thread-local memory of a library that is loaded late is scarce.
  unsigned found = kListMax;
  const int outcome = list(device, &found, all);
  if (outcome != 0) return outcome;
  unsigned kept = 0;
  for (unsigned i = 0; i < found; ++i)
    if (is_own(all[i].pid)) all[kept++] = all[i];
  const bool fits = out != nullptr && *count >= kept;
  if (fits) std::copy(all, all + kept, out);
  const bool asked_size = *count == 0 && kept > 0;
  *count = kept;
  return fits || (kept == 0 && !asked_size) ? 0 : kNvmlInsufficientSize;
}

struct Info1 {
  unsigned pid;
  unsigned long long used;
};
struct Info2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

}  // namespace
}  // namespace tranche::guard::cuda

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

GUARD_EXPORT int nvmlDeviceGetMemoryInfo(void* handle, NvmlMemory* memory) {
  const int outcome = REAL(nvmlDeviceGetMemoryInfo)(handle, memory);
  std::uint32_t device = 0;
  if (outcome != 0 || memory == nullptr || attach() != Attachment::kAttached || !device_of(handle, device))
    return outcome;
  memory->total = visible_total(device, memory->total);
  memory->used = used_in_slice(device);
  memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
  return outcome;
}

GUARD_EXPORT int nvmlDeviceGetMemoryInfo_v2(void* handle, NvmlMemory2* memory) {
  const int outcome = REAL(nvmlDeviceGetMemoryInfo_v2)(handle, memory);
  std::uint32_t device = 0;
  if (outcome != 0 || memory == nullptr || attach() != Attachment::kAttached || !device_of(handle, device))
    return outcome;
  memory->total = visible_total(device, memory->total);
  memory->reserved = 0;
  memory->used = used_in_slice(device);
  memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
  return outcome;
}

#define GUARD_LIST(name, Info)                                      \
  GUARD_EXPORT int name(void* device, unsigned* count, Info* out) { \
    return list_processes<Info>(REAL(name), device, count, out);    \
  }
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses, Info1)
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses_v2, Info2)
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses_v3, Info2)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses, Info1)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, Info2)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, Info2)
#undef GUARD_LIST
