// SPDX-License-Identifier: Apache-2.0
// How are the simulated devices cut? The calls of NVML that create and destroy MIG instances, on the profiles
// of an 80 GB part. Only what exists changes, in the shared state: the driver stand-in runs on whole devices.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device_state.hpp"

using namespace standin;

#define NVML_API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6, kInsufficientSize = 7,
              kInsufficientResources = 25, kInUse = 19;

struct Profile {
  unsigned number, id, slices, size, memory_gib, count;
  unsigned starts;  // Bits.
};
constexpr Profile kProfiles[] = {{0, 19, 1, 1, 10, 7, 0b01111111},
                                 {1, 14, 2, 2, 20, 3, 0b00010101},
                                 {2, 9, 3, 4, 40, 2, 0b00010001},
                                 {3, 5, 4, 4, 40, 1, 0b00000001},
                                 {4, 0, 7, 8, 80, 1, 0b00000001}};

struct ProfileInfo {
  unsigned version, id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders,
      jpeg, ofa;
  unsigned long long memory_mib;
  char name[96];
};
struct Placement {
  unsigned start, size;
};
struct InstanceInfo {
  void* device;
  unsigned id, profile;
  Placement placement;
};
struct ComputeInfo {
  unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, ofa;
};

SharedState* state() {
  return attach_state();
}

bool is_device(void* device, unsigned& index) {
  const auto number = reinterpret_cast<std::uintptr_t>(device);
  if (state() == nullptr || number == 0 || number > state()->config.device_count) return false;
  index = static_cast<unsigned>(number - 1);
  return true;
}

// An instance's handle is its place in the list, far from the numbers of devices.
void* instance_handle(unsigned place) {
  return reinterpret_cast<void*>(std::uintptr_t{0x1000} + place);
}
Config::Mig* instance_of(void* handle) {
  const auto place = reinterpret_cast<std::uintptr_t>(handle) - 0x1000;
  if (state() == nullptr || place >= state()->config.mig_count) return nullptr;
  Config::Mig& mig = state()->config.mig[place];
  return mig.slices == 0 ? nullptr : &mig;
}

const Profile* profile_by_id(unsigned id) {
  for (const Profile& profile : kProfiles)
    if (profile.id == id) return &profile;
  return nullptr;
}
const Profile* profile_of(const Config::Mig& mig) {
  for (const Profile& profile : kProfiles)
    if (profile.slices == mig.slices) return &profile;
  return nullptr;
}

bool overlaps(unsigned device, Placement wanted) {
  for (unsigned i = 0; i < state()->config.mig_count; ++i) {
    const Config::Mig& mig = state()->config.mig[i];
    const Profile* const profile = mig.slices == 0 ? nullptr : profile_of(mig);
    if (profile == nullptr || mig.device != device) continue;
    if (wanted.start < mig.start + profile->size && mig.start < wanted.start + wanted.size) return true;
  }
  return false;
}

}  // namespace

NVML_API nvmlDeviceSetMigMode(void* device, unsigned mode, int* activation) {
  unsigned index = 0;
  if (!is_device(device, index)) return kInvalidArgument;
  const StateLock lock(*state());
  for (unsigned i = 0; i < state()->config.mig_count; ++i)
    if (state()->config.mig[i].slices != 0 && state()->config.mig[i].device == index) return kInUse;
  unsigned& enabled = state()->config.mig_enabled;
  enabled = mode != 0 ? enabled | 1U << index : enabled & ~(1U << index);
  *activation = kSuccess;
  return kSuccess;
}

NVML_API nvmlDeviceGetGpuInstanceProfileInfoV(void* device, unsigned number, ProfileInfo* out) {
  unsigned index = 0;
  if (!is_device(device, index) || out == nullptr) return kInvalidArgument;
  for (const Profile& profile : kProfiles) {
    if (profile.number != number) continue;
    const unsigned version = out->version;
    *out = {};
    out->version = version;
    out->id = profile.id;
    out->slices = profile.slices;
    out->instances = profile.count;
    out->multiprocessors = profile.slices * 14;
    out->memory_mib = profile.memory_gib << 10;
    std::snprintf(out->name, sizeof out->name, "MIG %ug.%ugb", profile.slices, profile.memory_gib);
    return kSuccess;
  }
  return kNotSupported;
}

NVML_API nvmlDeviceGetGpuInstancePossiblePlacements_v2(void*, unsigned id, Placement* out, unsigned* count) {
  const Profile* const profile = profile_by_id(id);
  if (profile == nullptr || count == nullptr) return kInvalidArgument;
  unsigned found = 0;
  for (unsigned start = 0; start < 8; ++start) {
    if ((profile->starts >> start & 1U) == 0) continue;
    if (out != nullptr && found < *count) out[found] = {start, profile->size};
    ++found;
  }
  const bool fits = out == nullptr || found <= *count;
  *count = found;
  return fits ? kSuccess : kInsufficientSize;
}

NVML_API nvmlDeviceCreateGpuInstanceWithPlacement(void* device,
                                                  unsigned id,
                                                  const Placement* wanted,
                                                  void** out) {
  unsigned index = 0;
  const Profile* const profile = profile_by_id(id);
  if (!is_device(device, index) || profile == nullptr || wanted == nullptr) return kInvalidArgument;
  const StateLock lock(*state());
  Config& config = state()->config;
  if ((config.mig_enabled >> index & 1U) == 0) return kNotSupported;
  if ((profile->starts >> wanted->start & 1U) == 0 || overlaps(index, *wanted)) return kInsufficientResources;
  unsigned place = 0;
  while (place < config.mig_count && config.mig[place].slices != 0) ++place;
  if (place == kMigMax) return kInsufficientResources;
  config.mig_count = std::max(config.mig_count, place + 1);
  Config::Mig& mig = config.mig[place];
  mig = {};
  mig.device = index;
  mig.start = wanted->start;
  mig.memory_bytes = std::uint64_t{profile->memory_gib} << 30;
  std::snprintf(mig.profile, sizeof mig.profile, "%ug.%ugb", profile->slices, profile->memory_gib);
  mig.slices = profile->slices;
  *out = instance_handle(place);
  return kSuccess;
}

NVML_API nvmlDeviceGetGpuInstanceById(void* device, unsigned id, void** out) {
  unsigned index = 0;
  if (!is_device(device, index) || id == 0) return kInvalidArgument;
  const Config::Mig* const mig = instance_of(instance_handle(id - 1));
  if (mig == nullptr || mig->device != index) return kNotFound;
  *out = instance_handle(id - 1);
  return kSuccess;
}

NVML_API nvmlGpuInstanceGetInfo(void* instance, InstanceInfo* out) {
  const Config::Mig* const mig = instance_of(instance);
  const Profile* const profile = mig == nullptr ? nullptr : profile_of(*mig);
  if (profile == nullptr || out == nullptr) return kInvalidArgument;
  const auto place = static_cast<unsigned>(mig - state()->config.mig);
  *out = {reinterpret_cast<void*>(std::uintptr_t{mig->device} + 1),
          place + 1,
          profile->id,
          {mig->start, profile->size}};
  return kSuccess;
}

NVML_API nvmlGpuInstanceDestroy(void* instance) {
  Config::Mig* const mig = instance_of(instance);
  if (mig == nullptr) return kInvalidArgument;
  const StateLock lock(*state());
  mig->slices = 0;
  return kSuccess;
}

// One compute instance fills each of ours, and comes and goes with it.
NVML_API nvmlGpuInstanceGetComputeInstanceProfileInfo(void* instance,
                                                      unsigned number,
                                                      unsigned,
                                                      ComputeInfo* out) {
  const Config::Mig* const mig = instance_of(instance);
  if (mig == nullptr || number != 0) return mig == nullptr ? kInvalidArgument : kNotSupported;
  *out = {0, mig->slices, 1, mig->slices * 14, 1, 0, 0, 0, 0};
  return kSuccess;
}

NVML_API nvmlGpuInstanceCreateComputeInstance(void* instance, unsigned profile, void** out) {
  if (instance_of(instance) == nullptr || profile != 0) return kInvalidArgument;
  *out = instance;
  return kSuccess;
}
