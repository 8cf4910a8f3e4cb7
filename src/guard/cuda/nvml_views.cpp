// SPDX-License-Identifier: Apache-2.0
// What NVML tells a tenant: a device of the size that was given, and no process but its own.
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

constexpr int kNvmlSuccess = 0, kNvmlNotFound = 6, kNvmlInsufficientSize = 7, kNvmlOtherVersion = 25;
constexpr unsigned kListMax = 1024;

struct Info1 {
  unsigned pid;
  unsigned long long used;
};
struct Info2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct Detail {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
  unsigned long long used_protected;
};
struct DetailList {
  unsigned version, mode, count;
  Detail* entries;
};
struct Sample {
  unsigned pid;
  unsigned long long at_us;
  unsigned busy[4];
};
struct Sample2 {
  unsigned long long at_us;
  unsigned pid;
  unsigned busy[6];
};
struct SampleList {
  unsigned version, count;
  unsigned long long since_us;
  Sample2* entries;
};
constexpr unsigned kDetailListVersion = sizeof(DetailList) | 1U << 24;
constexpr unsigned kSampleListVersion = sizeof(SampleList) | 1U << 24;

unsigned pid_of(unsigned entry) {
  return entry;
}
template <class Entry>
unsigned pid_of(const Entry& entry) {
  return entry.pid;
}

// Of what `ask(entries, count)` finds, the tenant's own. Who gives no room, or too little, is told how much.
template <class Entry, class Ask>
int hand_out_own(Ask ask, unsigned& count, Entry* out) {
  Entry all[kListMax];  // On the stack: thread-local memory of a library that is loaded late is scarce.
  unsigned found = kListMax;
  attach();  // Whoever only looks holds no slot yet, and knows nobody.
  const int outcome = ask(all, found);
  if (outcome != kNvmlSuccess) return outcome;
  unsigned kept = 0;
  for (unsigned i = 0; i < found; ++i)
    if (is_own(pid_of(all[i]))) all[kept++] = all[i];
  const bool fits = kept == 0 || (out != nullptr && count >= kept);
  if (fits) std::copy(all, all + kept, out);
  count = kept;
  return fits ? kNvmlSuccess : kNvmlInsufficientSize;
}

}  // namespace
}  // namespace tranche::guard::cuda

using namespace tranche::guard;        // NOLINT: this file is the border between two name spaces.
using namespace tranche::guard::cuda;  // NOLINT

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

#define GUARD_LIST(name, Info)                                                            \
  GUARD_EXPORT int name(void* device, unsigned* count, Info* out) {                       \
    if (count == nullptr) return REAL(name)(device, count, out);                          \
    const auto ask = [&](Info* all, unsigned& n) { return REAL(name)(device, &n, all); }; \
    return hand_out_own(ask, *count, out);                                                \
  }
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses, Info1)
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses_v2, Info2)
GUARD_LIST(nvmlDeviceGetComputeRunningProcesses_v3, Info2)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses, Info1)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, Info2)
GUARD_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, Info2)
GUARD_LIST(nvmlDeviceGetMPSComputeRunningProcesses, Info1)
GUARD_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, Info2)
GUARD_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, Info2)
GUARD_LIST(nvmlDeviceGetAccountingPids, unsigned)
#undef GUARD_LIST

GUARD_EXPORT int nvmlDeviceGetRunningProcessDetailList(void* device, DetailList* list) {
  auto* real = REAL(nvmlDeviceGetRunningProcessDetailList);
  if (list == nullptr) return real(device, list);
  if (list->version != kDetailListVersion) return kNvmlOtherVersion;  // Its entries could not be told apart.
  const auto ask = [&](Detail* all, unsigned& count) {
    DetailList whole{list->version, list->mode, count, all};
    const int outcome = real(device, &whole);
    count = whole.count;
    return outcome;
  };
  return hand_out_own(ask, list->count, list->entries);
}

GUARD_EXPORT int nvmlDeviceGetProcessUtilization(void* device,
                                                 Sample* out,
                                                 unsigned* count,
                                                 unsigned long long since_us) {
  auto* real = REAL(nvmlDeviceGetProcessUtilization);
  if (count == nullptr) return real(device, out, count, since_us);
  const auto ask = [&](Sample* all, unsigned& n) { return real(device, all, &n, since_us); };
  const int outcome = hand_out_own(ask, *count, out);
  return outcome == kNvmlSuccess && *count == 0 ? kNvmlNotFound : outcome;
}

GUARD_EXPORT int nvmlDeviceGetProcessesUtilizationInfo(void* device, SampleList* list) {
  auto* real = REAL(nvmlDeviceGetProcessesUtilizationInfo);
  if (list == nullptr) return real(device, list);
  if (list->version != kSampleListVersion) return kNvmlOtherVersion;
  const auto ask = [&](Sample2* all, unsigned& count) {
    SampleList whole{list->version, count, list->since_us, all};
    const int outcome = real(device, &whole);
    count = whole.count;
    return outcome;
  };
  const int outcome = hand_out_own(ask, list->count, list->entries);
  return outcome == kNvmlSuccess && list->count == 0 ? kNvmlNotFound : outcome;
}
