// SPDX-License-Identifier: Apache-2.0
#include "gpu/nvml_partitions.hpp"

#include <algorithm>
#include <array>

#include "gpu/device_identity.hpp"

namespace tranche::gpu::nvml {
namespace {

constexpr unsigned kProfilesMax = 32;
constexpr unsigned kPlacementsMax = 32;

struct Profile {
  unsigned id = 0;
  unsigned slices = 0;
  wire::ProfileFacts facts{};
  std::vector<Placement> placements{};
};

// "MIG 1g.10gb" is 1g.10gb to everybody else.
std::string plain_profile_name(const char* name) {
  const std::string text(name);
  return text.starts_with("MIG ") ? text.substr(4) : text;
}

std::optional<Profile> read_profile(const Api& api, Device device, unsigned number) {
  InstanceProfile info{};
  info.version = kInstanceProfileVersion;
  if (!succeeds(api.instance_profile, device, number, &info)) return std::nullopt;
  Profile profile{.id = info.id, .slices = info.slices};
  std::array<Placement, kPlacementsMax> places{};
  unsigned count = kPlacementsMax;
  if (succeeds(api.possible_placements, device, info.id, places.data(), &count))
    profile.placements.assign(places.begin(), places.begin() + std::min(count, kPlacementsMax));
  wire::ProfileFacts& facts = profile.facts;
  facts.name = plain_profile_name(info.name);
  facts.compute_slices = static_cast<std::uint8_t>(info.slices);
  facts.count_max = static_cast<std::uint8_t>(info.instances);
  facts.memory = mebibytes(static_cast<std::int64_t>(info.memory_mib));
  for (const Placement& place : profile.placements) {
    facts.memory_slices = static_cast<std::uint8_t>(place.size);
    if (place.start < 8) facts.starts = static_cast<std::uint8_t>(facts.starts | (1U << place.start));
  }
  return profile;
}

std::vector<Profile> read_profiles(const Api& api, Device device) {
  std::vector<Profile> out;
  for (unsigned number = 0; number < kProfilesMax; ++number) {
    if (auto profile = read_profile(api, device, number)) out.push_back(std::move(*profile));
  }
  return out;
}

std::string text_of(int (*read)(Device, char*, unsigned), Device device) {
  char text[128] = {};
  return succeeds(read, device, text, unsigned{sizeof text}) ? text : "";
}

// The one that takes all of the instance.
Result<void, std::string> fill_with_compute(const Api& api, GpuInstance instance, unsigned slices) {
  for (unsigned number = 0; number < 16; ++number) {
    ComputeProfile info{};
    if (!succeeds(api.compute_profile, instance, number, 0U, &info) || info.slices != slices) continue;
    ComputeInstance made = nullptr;
    if (succeeds(api.create_compute, instance, info.id, &made)) return {};
  }
  return refuse(std::string("the driver gave the partition no compute instance"));
}

std::string starts_text(std::uint8_t starts) {
  std::string out;
  for (unsigned start = 0; start < 8; ++start) {
    if ((unsigned{starts} >> start & 1U) != 0) out += (out.empty() ? "" : ", ") + std::to_string(start);
  }
  return out;
}

std::string find_profile_name(const Api& api, Device device, unsigned id) {
  for (const Profile& profile : read_profiles(api, device)) {
    if (profile.id == id) return profile.facts.name;
  }
  return {};
}

// The driver names a partition's device after its profile: "NVIDIA A100 MIG 1g.10gb".
std::string profile_in_name(const std::string& name) {
  const auto at = name.rfind("MIG ");
  return at == std::string::npos ? std::string() : name.substr(at + 4);
}

}  // namespace

bool is_partitioned(const Api& api, Device device) {
  unsigned current = 0, pending = 0;
  return succeeds(api.mig_mode, device, &current, &pending) && current == 1;
}

std::vector<wire::ProfileFacts> profiles_of(const Api& api, Device device, std::string_view model) {
  std::vector<wire::ProfileFacts> out;
  for (Profile& profile : read_profiles(api, device)) out.push_back(std::move(profile.facts));
  return out.empty() ? planned_profiles(model) : out;
}

std::vector<FoundPartition> partitions_of(const Api& api, Device device) {
  std::vector<FoundPartition> out;
  unsigned most = 0;
  if (!is_partitioned(api, device) || !succeeds(api.mig_count_max, device, &most)) return out;
  for (unsigned index = 0; index < most; ++index) {
    FoundPartition found;
    if (!succeeds(api.mig_by_index, device, index, &found.handle)) continue;
    succeeds(api.mig_instance_id, found.handle, &found.gpu_instance);
    succeeds(api.mig_compute_id, found.handle, &found.compute_instance);
    found.partition.uuid = text_of(api.uuid, found.handle);
    GpuInstance instance = nullptr;
    InstanceInfo info{};
    if (succeeds(api.instance_by_id, device, found.gpu_instance, &instance) &&
        succeeds(api.instance_info, instance, &info)) {
      found.partition.start = static_cast<std::uint8_t>(info.placement.start);
      found.partition.profile = find_profile_name(api, device, info.profile);
    }
    if (found.partition.profile.empty())
      found.partition.profile = profile_in_name(text_of(api.name, found.handle));
    out.push_back(std::move(found));
  }
  return out;
}

Result<Partition, std::string> create_partition(const Api& api,
                                                Device device,
                                                const std::string& profile,
                                                std::uint8_t start) {
  if (!is_partitioned(api, device))
    return refuse(std::string("the device is not partitioned: set its mode to partitioned first"));
  const auto profiles = read_profiles(api, device);
  const auto wanted = std::find_if(
      profiles.begin(), profiles.end(), [&](const Profile& one) { return one.facts.name == profile; });
  if (wanted == profiles.end()) return refuse("the device has no profile " + profile);
  const auto place = std::find_if(wanted->placements.begin(),
                                  wanted->placements.end(),
                                  [&](const Placement& one) { return one.start == start; });
  if (place == wanted->placements.end())
    return refuse(profile + " cannot start at " + std::to_string(start) + ": it may start at " +
                  starts_text(wanted->facts.starts));
  GpuInstance instance = nullptr;
  if (api.create_instance == nullptr) return refuse(std::string("this driver cannot create partitions"));
  if (const int result = api.create_instance(device, wanted->id, &*place, &instance); result != 0)
    return refuse("the driver did not create " + profile + ": " + api.reason(result));
  InstanceInfo info{};
  succeeds(api.instance_info, instance, &info);
  if (auto filled = fill_with_compute(api, instance, wanted->slices); !filled) {
    succeeds(api.destroy_instance, instance);
    return refuse(std::move(filled.error()));
  }
  for (FoundPartition& found : partitions_of(api, device)) {
    if (found.gpu_instance == info.id) return found.partition;
  }
  return refuse(std::string("the driver created the partition but does not list it"));
}

Result<void, std::string> destroy_partition(const Api& api, Device device, const FoundPartition& found) {
  GpuInstance instance = nullptr;
  if (!succeeds(api.instance_by_id, device, found.gpu_instance, &instance) || api.destroy_instance == nullptr)
    return refuse(std::string("this driver cannot destroy partitions"));
  for (unsigned profile = 0; profile < 16; ++profile) {
    std::array<ComputeInstance, 8> inside{};
    unsigned count = 0;
    if (!succeeds(api.compute_instances, instance, profile, inside.data(), &count)) continue;
    for (unsigned i = 0; i < std::min<unsigned>(count, 8); ++i) succeeds(api.destroy_compute, inside[i]);
  }
  if (const int result = api.destroy_instance(instance); result != 0)
    return refuse("the driver did not destroy the partition: " + std::string(api.reason(result)));
  return {};
}

Result<void, std::string> set_partitioned(const Api& api, Device device, bool partitioned) {
  if (is_partitioned(api, device) == partitioned) return {};
  if (api.set_mig_mode == nullptr) return refuse(std::string("this device cannot be partitioned"));
  int activation = 0;
  const int result = api.set_mig_mode(device, partitioned ? 1 : 0, &activation);
  if (result != 0) return refuse("the driver did not change the mode: " + std::string(api.reason(result)));
  if (activation != 0 || is_partitioned(api, device) != partitioned)
    return refuse(std::string("the new mode is pending: reset the device to bring it into force"));
  return {};
}

}  // namespace tranche::gpu::nvml
