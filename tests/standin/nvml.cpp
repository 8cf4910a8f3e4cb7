// SPDX-License-Identifier: Apache-2.0
// What does the simulated device report from outside? libnvidia-ml.so.1 of the stand-in: memory, processes, a
// utilisation over the last second, and MIG layouts, all read from the shared state.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "device_state.hpp"

using namespace standin;

#define NVML_API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6,
              kInsufficientSize = 7;
SharedState* shared = nullptr;

// A device handle is a small number; MIG instances follow the physical devices.
struct Handle {
  bool valid = false, is_mig = false;
  unsigned device = 0, mig = 0;
};

void* handle_of(unsigned index) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(index) + 1);
}

Handle decode(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  Handle out;
  if (shared == nullptr || number == 0) return out;
  if (number <= shared->config.device_count) {
    out = {true, false, static_cast<unsigned>(number - 1), 0};
  } else if (number - kDevicesMax - 1 < shared->config.mig_count) {
    const auto mig = static_cast<unsigned>(number - kDevicesMax - 1);
    if (shared->config.mig[mig].slices == 0) return out;
    out = {true, true, shared->config.mig[mig].device, mig};
  }
  return out;
}

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct ProcessV1 {
  unsigned pid;
  unsigned long long used;
};
struct ProcessV2 {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct ProcessDetail {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
  unsigned long long used_protected;
};
struct DetailList {
  unsigned version, mode, count;
  ProcessDetail* entries;
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
struct ProcessSampleV2 {
  unsigned long long time_us;
  unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;
};
struct SampleList {
  unsigned version, count;
  unsigned long long since_us;
  ProcessSampleV2* entries;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Attributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
  unsigned long long memory_mib;
};

Memory memory_of(const Handle& handle) {
  const StateLock lock(*shared);
  reclaim_dead(*shared);
  const std::uint64_t total =
      handle.is_mig ? shared->config.mig[handle.mig].memory_bytes : shared->config.vram_bytes;
  const std::uint64_t used = shared->config.vram_bytes - shared->devices[handle.device].free_bytes;
  return {total, total - std::min(total, used), used};
}

std::vector<ProcessV2> processes_of(const Handle& handle) {
  const StateLock lock(*shared);
  reclaim_dead(*shared);
  std::vector<ProcessV2> found;
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot) {
    const std::uint64_t used = shared->slots[slot].vram_bytes[handle.device].load();
    if (shared->slots[slot].used.load() == 0 || used == 0) continue;
    const int pid = visible_pid(*shared, slot);
    if (pid > 0) found.push_back({static_cast<unsigned>(pid), used, 0xffffffff, 0xffffffff});
  }
  return found;
}

template <typename Entry>
int list_processes(void* device, unsigned* count, Entry* out) {
  const Handle handle = decode(device);
  if (!handle.valid || count == nullptr) return kInvalidArgument;
  const auto found = processes_of(handle);
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room || (out == nullptr && !found.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::memset(static_cast<void*>(&out[i]), 0, sizeof(Entry));
    out[i].pid = found[i].pid;
    out[i].used = found[i].used;
    if constexpr (sizeof(Entry) >= sizeof(ProcessV2))
      out[i].gpu_instance = out[i].compute_instance = 0xffffffff;
  }
  return kSuccess;
}

unsigned busy_percent(unsigned device, std::uint32_t slot) {
  const std::uint64_t now = now_ns();
  constexpr std::uint64_t window = 1'000'000'000;
  return static_cast<unsigned>(std::min<std::uint64_t>(
      100, (busy_between(*shared, device, slot, now - window, now) * 100 + window / 2) / window));
}

std::vector<ProcessSample> samples_of(const Handle& handle) {
  std::vector<ProcessSample> samples;
  for (std::uint32_t slot = 0; slot < kSlotsMax; ++slot) {
    if (shared->slots[slot].used.load() == 0) continue;
    const int pid = visible_pid(*shared, slot);
    if (pid <= 0) continue;
    samples.push_back(
        {static_cast<unsigned>(pid), now_ns() / 1000, busy_percent(handle.device, slot), 0, 0, 0});
  }
  return samples;
}

int copy_text(char* out, unsigned length, const char* text) {
  if (out == nullptr || std::strlen(text) + 1 > length) return kInsufficientSize;
  std::memcpy(out, text, std::strlen(text) + 1);
  return kSuccess;
}

}  // namespace

NVML_API nvmlInit_v2() {
  shared = attach_state();
  return shared == nullptr ? 9 /* driver not loaded */ : kSuccess;
}
NVML_API nvmlInit() {
  return nvmlInit_v2();
}
NVML_API nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}
NVML_API nvmlShutdown() {
  return shared == nullptr ? kUninitialized : kSuccess;
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

NVML_API nvmlSystemGetDriverVersion(char* out, unsigned length) {
  return copy_text(out, length, "0.0 SIMULATED");
}
NVML_API nvmlSystemGetNVMLVersion(char* out, unsigned length) {
  return copy_text(out, length, "0.0 SIMULATED");
}
NVML_API nvmlSystemGetCudaDriverVersion_v2(int* version) {
  if (shared == nullptr) return kUninitialized;
  *version = shared->config.driver_version;
  return kSuccess;
}
NVML_API nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

NVML_API nvmlDeviceGetCount_v2(unsigned* count) {
  if (shared == nullptr) return kUninitialized;
  *count = shared->config.device_count;
  return kSuccess;
}
NVML_API nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

NVML_API nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  if (shared == nullptr) return kUninitialized;
  if (index >= shared->config.device_count) return kInvalidArgument;
  *out = handle_of(index);
  return kSuccess;
}
NVML_API nvmlDeviceGetHandleByIndex(unsigned index, void** out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

NVML_API nvmlDeviceGetUUID(void* device, char* out, unsigned length) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  char text[64];
  if (handle.is_mig) {
    std::snprintf(
        text, sizeof text, "MIG-53494d55-4c41-5445-442d-4445562d%02u%02u", handle.device, handle.mig);
  } else {
    // The bytes of cuDeviceGetUuid, written as NVML writes them.
    std::snprintf(text, sizeof text, "GPU-53494d55-4c41-5445-442d-4445562d%02x00", '0' + handle.device);
  }
  return copy_text(out, length, text);
}

NVML_API nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
  if (shared == nullptr) return kUninitialized;
  for (unsigned number = 0; number < kDevicesMax + shared->config.mig_count; ++number) {
    char text[64];
    if (nvmlDeviceGetUUID(handle_of(number), text, sizeof text) != kSuccess || std::strcmp(text, uuid) != 0)
      continue;
    *out = handle_of(number);
    return kSuccess;
  }
  return kNotFound;
}

NVML_API nvmlDeviceGetName(void* device, char* out, unsigned length) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  char text[96];
  std::snprintf(text,
                sizeof text,
                handle.is_mig ? "Tranche stand-in (SIMULATED) MIG %s" : "Tranche stand-in (SIMULATED)",
                handle.is_mig ? shared->config.mig[handle.mig].profile : "");
  return copy_text(out, length, text);
}

NVML_API nvmlDeviceGetIndex(void* device, unsigned* index) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  *index = handle.is_mig ? handle.mig : handle.device;
  return kSuccess;
}

NVML_API nvmlDeviceGetMinorNumber(void* device, unsigned* minor) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  *minor = handle.device;
  return kSuccess;
}

NVML_API nvmlDeviceGetMemoryInfo(void* device, Memory* out) {
  const Handle handle = decode(device);
  if (!handle.valid || out == nullptr) return kInvalidArgument;
  *out = memory_of(handle);
  return kSuccess;
}

NVML_API nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* out) {
  const Handle handle = decode(device);
  if (!handle.valid || out == nullptr) return kInvalidArgument;
  const Memory memory = memory_of(handle);
  *out = {out->version, memory.total, 0, memory.free, memory.used};
  return kSuccess;
}

NVML_API nvmlDeviceGetUtilizationRates(void* device, Utilization* out) {
  const Handle handle = decode(device);
  if (!handle.valid || out == nullptr) return kInvalidArgument;
  *out = {busy_percent(handle.device, kNone), 0};
  return kSuccess;
}

NVML_API nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, ProcessV1* out) {
  return list_processes(device, count, out);
}
NVML_API nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, ProcessV2* out) {
  return list_processes(device, count, out);
}
NVML_API nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessV2* out) {
  return list_processes(device, count, out);
}
NVML_API nvmlDeviceGetGraphicsRunningProcesses(void*, unsigned* count, ProcessV1*) {
  *count = 0;
  return kSuccess;
}
NVML_API nvmlDeviceGetGraphicsRunningProcesses_v2(void*, unsigned* count, ProcessV2*) {
  *count = 0;
  return kSuccess;
}
NVML_API nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, ProcessV2*) {
  *count = 0;
  return kSuccess;
}

NVML_API nvmlDeviceGetRunningProcessDetailList(void* device, DetailList* list) {
  if (list == nullptr || list->version != (sizeof *list | 1U << 24)) return kInvalidArgument;
  return list->mode == 0 ? list_processes(device, &list->count, list->entries) : kNotSupported;
}

NVML_API nvmlDeviceGetAccountingPids(void* device, unsigned* count, unsigned* pids) {
  const Handle handle = decode(device);
  if (!handle.valid || count == nullptr) return kInvalidArgument;
  const auto found = processes_of(handle);
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room || (pids == nullptr && !found.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < found.size(); ++i) pids[i] = found[i].pid;
  return kSuccess;
}

NVML_API nvmlDeviceGetProcessUtilization(void* device,
                                         ProcessSample* out,
                                         unsigned* count,
                                         unsigned long long) {
  const Handle handle = decode(device);
  if (!handle.valid || count == nullptr) return kInvalidArgument;
  const auto samples = samples_of(handle);
  const unsigned room = *count;
  *count = static_cast<unsigned>(samples.size());
  if (samples.size() > room || (out == nullptr && !samples.empty())) return kInsufficientSize;
  std::copy(samples.begin(), samples.end(), out);
  return samples.empty() ? kNotFound : kSuccess;
}

NVML_API nvmlDeviceGetProcessesUtilizationInfo(void* device, SampleList* list) {
  const Handle handle = decode(device);
  if (!handle.valid || list == nullptr || list->version != (sizeof *list | 1U << 24)) return kInvalidArgument;
  const auto samples = samples_of(handle);
  const unsigned room = list->count;
  list->count = static_cast<unsigned>(samples.size());
  if (samples.size() > room || (list->entries == nullptr && !samples.empty())) return kInsufficientSize;
  for (std::size_t i = 0; i < samples.size(); ++i)
    list->entries[i] = {samples[i].time_us, samples[i].pid, samples[i].sm, 0, 0, 0, 0, 0};
  return samples.empty() ? kNotFound : kSuccess;
}

NVML_API nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  *current = shared->config.mig_enabled >> handle.device & 1U;
  *pending = *current;
  return kSuccess;
}

NVML_API nvmlDeviceIsMigDeviceHandle(void* device, unsigned* is_mig) {
  const Handle handle = decode(device);
  if (!handle.valid) return kInvalidArgument;
  *is_mig = handle.is_mig ? 1 : 0;
  return kSuccess;
}

NVML_API nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  if (!decode(device).valid) return kInvalidArgument;
  *count = 7;
  return kSuccess;
}

NVML_API nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** out) {
  const Handle handle = decode(device);
  if (!handle.valid || handle.is_mig) return kInvalidArgument;
  for (unsigned i = 0; i < shared->config.mig_count; ++i) {
    const Config::Mig& mig = shared->config.mig[i];
    if (mig.slices == 0 || mig.device != handle.device || index-- != 0) continue;
    *out = handle_of(kDevicesMax + i);
    return kSuccess;
  }
  return kNotFound;
}

NVML_API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* mig, void** out) {
  const Handle handle = decode(mig);
  if (!handle.valid || !handle.is_mig) return kInvalidArgument;
  *out = handle_of(handle.device);
  return kSuccess;
}

NVML_API nvmlDeviceGetGpuInstanceId(void* mig, unsigned* id) {
  const Handle handle = decode(mig);
  if (!handle.valid || !handle.is_mig) return kInvalidArgument;
  *id = handle.mig + 1;
  return kSuccess;
}

NVML_API nvmlDeviceGetComputeInstanceId(void* mig, unsigned* id) {
  *id = 0;
  return decode(mig).is_mig ? kSuccess : kInvalidArgument;
}

NVML_API nvmlDeviceGetAttributes_v2(void* mig, Attributes* out) {
  const Handle handle = decode(mig);
  if (!handle.valid || !handle.is_mig) return kInvalidArgument;
  const Config::Mig& layout = shared->config.mig[handle.mig];
  *out = {layout.slices * shared->config.multiprocessors / 7,
          1,
          0,
          0,
          0,
          0,
          layout.slices,
          layout.slices,
          layout.memory_bytes >> 20};
  return kSuccess;
}
NVML_API nvmlDeviceGetAttributes(void* mig, Attributes* out) {
  return nvmlDeviceGetAttributes_v2(mig, out);
}
