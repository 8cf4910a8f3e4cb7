// SPDX-License-Identifier: Apache-2.0
// Which devices an ask may mean, and what they can be cut into.
#include <algorithm>

#include "engine/capacity.hpp"
#include "engine/state.hpp"
#include "wire/gpu_catalog.hpp"

namespace tranche::engine {
namespace {

constexpr std::int32_t kModelsMax = 64;

bool is_meant(const std::string& device_model, const std::string& asked, wire::MemoryMatch memory) {
  const wire::GpuModel* device = wire::find_gpu_model(device_model);
  if (device == nullptr) return wire::equal_ignoring_case(device_model, asked);
  return wire::is_meant_by(*device, asked, memory);
}

// Catalogues say 80 GB of what a device reports as a little less or more: up to a twelfth is the same memory.
bool has_memory(std::int64_t vram, const DeviceWish& wish) {
  const std::int64_t slack = vram / 12;
  return vram + slack >= wish.memory_min && (wish.memory_max == 0 || vram - slack <= wish.memory_max);
}

}  // namespace

std::uint16_t marks_of(const wire::ProfileFacts& profile) {
  return profile.name.find("+me") == std::string::npos ? std::uint16_t{0} : policy::kOnlyMedia;
}

bool is_wanted(const Ask& ask, const DeviceKind& device) {
  const DeviceWish* wish = ask.wish ? &*ask.wish : nullptr;
  const bool own_memory = wish != nullptr && (wish->memory_min > 0 || wish->memory_max > 0);
  if (wish != nullptr && wish->vendor != wire::GpuVendor::kAny && wish->vendor != device.vendor) return false;
  if (own_memory && !has_memory(device.vram, *wish)) return false;
  const auto match = own_memory ? wire::MemoryMatch::kAny : wire::MemoryMatch::kSame;
  const auto is_called = [&](const std::string& name) {
    return name.empty() || is_meant(device.model, name, match);
  };
  if (wish == nullptr || wish->models.empty()) return is_called(ask.model);
  return std::any_of(wish->models.begin(), wish->models.end(), is_called);
}

std::int32_t Capacity::model_bit(const DeviceFacts& facts) {
  const auto next = std::min<std::int32_t>(static_cast<std::int32_t>(models_.size()), kModelsMax - 1);
  return models_.emplace(DeviceKind{facts.model, facts.vram.count, facts.vendor}, next).first->second;
}

policy::ModelSet Capacity::models_for(const Ask& ask) const {
  policy::ModelSet models = 0;
  for (const auto& [model, bit] : models_)
    if (is_wanted(ask, model)) models |= policy::ModelSet{1} << static_cast<unsigned>(bit);
  return models;
}

const std::set<DeviceKind>& Capacity::device_kinds(const State& state) {
  if (!device_kinds_.empty()) return device_kinds_;
  for (const auto& [id, device] : state.devices) {
    const Node& node = state.nodes.at(device.node);
    if (node.state == NodeState::kRetired) continue;
    device_kinds_.insert(
        {device.facts.model, device.facts.vram.count, device.facts.vendor, node.site, node.simulated});
  }
  return device_kinds_;
}

std::uint32_t Capacity::geometry_of(const DeviceFacts& facts) {
  if (facts.profiles.empty()) return 0;
  std::string key = facts.model + ' ' + std::to_string(facts.vram.count);
  std::int32_t slices = 1;
  std::int64_t memory_slices = 1;
  for (const auto& profile : facts.profiles) {
    key += ' ' + profile.name;
    slices = std::max<std::int32_t>(slices, profile.compute_slices);
    memory_slices = std::max<std::int64_t>(memory_slices, profile.memory_slices);
  }
  // Profiles are listed for a device as it is sold, which may say it has more memory than this one reports.
  const auto memory_of = [&](const wire::ProfileFacts& profile) {
    return std::min(profile.memory.count, facts.vram.count * profile.memory_slices / memory_slices);
  };
  if (const auto known = geometries_.find(key); known != geometries_.end()) return known->second;
  policy::Geometry geometry;
  for (const auto& profile : facts.profiles) {
    const auto number =
        profiles_.emplace(profile.name, static_cast<std::int32_t>(profiles_.size()) + 1).first->second;
    geometry.profiles.push_back({.profile = number,
                                 .width = profile.memory_slices,
                                 .starts = profile.starts,
                                 .milli = profile.compute_slices * 1000 / slices,
                                 .vram = memory_of(profile),
                                 .also = marks_of(profile)});
  }
  return geometries_.emplace(key, placer_.add_geometry(std::move(geometry))).first->second;
}

}  // namespace tranche::engine
