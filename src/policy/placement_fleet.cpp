// SPDX-License-Identifier: Apache-2.0
#include "policy/placement_fleet.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"

namespace tranche::policy {

Fleet::Fleet() : geometries_(1), filters_(1) {}

std::uint32_t Fleet::add_geometry(Geometry geometry) {
  geometries_.push_back(std::move(geometry));
  return static_cast<std::uint32_t>(geometries_.size() - 1);
}

FilterIndex Fleet::add_filter(std::vector<PoolIndex> allowed_pools) {
  std::sort(allowed_pools.begin(), allowed_pools.end());
  filters_.push_back(std::move(allowed_pools));
  return static_cast<FilterIndex>(filters_.size() - 1);
}

NodeIndex Fleet::add_node(const NodeSpec& spec) {
  TRANCHE_CHECK(spec.devices >= 0 && spec.devices <= kDevicesMax && spec.model >= 0 && spec.model < 64);
  TRANCHE_CHECK(spec.geometry < geometries_.size());
  const auto known = std::find(types_.begin(), types_.end(), spec);
  NodeState state;
  state.type = static_cast<TypeIndex>(known - types_.begin());
  if (known == types_.end()) types_.push_back(spec);
  state.cpu_left = spec.cpu_milli;
  state.memory_left = spec.memory_mib;
  state.device_count = static_cast<std::uint8_t>(spec.devices);
  for (int i = 0; i < spec.devices; ++i) state.devices[static_cast<std::size_t>(i)].vram_left = spec.vram;
  capacity_milli_ += std::int64_t{spec.devices} * kDeviceMilli;
  nodes_.push_back(state);
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

void Fleet::set_open(NodeIndex node, bool open) {
  nodes_[node].open = open;
  ++nodes_[node].version;
}

void Fleet::set_blocked(NodeIndex node, int device, bool blocked) {
  nodes_[node].devices[static_cast<std::size_t>(device)].blocked = blocked;
  ++nodes_[node].version;
}

std::uint16_t Fleet::keep_slots(NodeIndex node, int device, std::uint16_t slots) {
  std::uint16_t& used = nodes_[node].devices[static_cast<std::size_t>(device)].slots_used;
  const auto kept = static_cast<std::uint16_t>(slots & ~used);
  used = static_cast<std::uint16_t>(used | kept);
  ++nodes_[node].version;
  return kept;
}

void Fleet::unkeep_slots(NodeIndex node, int device, std::uint16_t slots) {
  std::uint16_t& used = nodes_[node].devices[static_cast<std::size_t>(device)].slots_used;
  used = static_cast<std::uint16_t>(used & ~slots);
  ++nodes_[node].version;
}

bool Fleet::type_allows(const NodeSpec& spec, const Shape& shape) const {
  if (shape.filter != 0) {
    const auto& pools = filters_[shape.filter];
    if (!std::binary_search(pools.begin(), pools.end(), spec.pool)) return false;
  }
  if (shape.devices == 0) return true;
  return shape.models == 0 || ((shape.models >> spec.model) & 1U) != 0;
}

bool Fleet::device_fits(const NodeSpec& spec, const DeviceState& device, const Shape& shape) const {
  if (device.blocked) return false;
  if (shape.profile != 0) {
    if (device.mode != DeviceMode::kFree && device.mode != DeviceMode::kPartitioned) return false;
    const Geometry& table = geometries_[spec.geometry];
    const PartitionProfile* profile = table.find(shape.profile);
    return profile != nullptr && table.best_start(*profile, device.slots_used).has_value();
  }
  if (shape.milli >= kDeviceMilli) return device.mode == DeviceMode::kFree;
  if (device.mode == DeviceMode::kFree) return device.vram_left >= shape.vram;
  return device.mode == DeviceMode::kShared && device.trust_group == shape.trust_group &&
         device.milli_left >= shape.milli && device.vram_left >= shape.vram;
}

bool Fleet::state_fits(const NodeState& state, const Shape& shape) const {
  if (!state.open || state.cpu_left < shape.cpu_milli || state.memory_left < shape.memory_mib) return false;
  const NodeSpec& spec = types_[state.type];
  if (!type_allows(spec, shape)) return false;
  int fitting = 0;
  for (int i = 0; i < state.device_count && fitting < shape.devices; ++i)
    fitting += device_fits(spec, state.devices[static_cast<std::size_t>(i)], shape) ? 1 : 0;
  return fitting >= shape.devices;
}

Unfit Fleet::classify(const NodeState& state, const Shape& shape) const {
  const NodeSpec& spec = types_[state.type];
  Unfit unfit;
  if (!state.open) {
    unfit.closed = 1;
  } else if (shape.filter != 0 && !type_allows(spec, Shape{.filter = shape.filter})) {
    unfit.filtered = 1;
  } else if (!type_allows(spec, shape)) {
    unfit.wrong_model = 1;
  } else if (spec.cpu_milli < shape.cpu_milli || spec.memory_mib < shape.memory_mib ||
             spec.devices < shape.devices || spec.vram < shape.vram ||
             (shape.profile != 0 && geometries_[spec.geometry].find(shape.profile) == nullptr)) {
    unfit.too_small = 1;
  } else if (state.cpu_left < shape.cpu_milli) {
    unfit.cpu = 1;
  } else if (state.memory_left < shape.memory_mib) {
    unfit.memory = 1;
  } else if (state_fits(state, shape)) {
    unfit.fits = 1;
  } else if (state.idle_milli() < shape.gpu_milli()) {
    unfit.devices = 1;
  } else {
    unfit.fragmentation = 1;
  }
  return unfit;
}

Unfit Fleet::explain(const Shape& shape) const {
  Unfit sum;
  for (const NodeState& state : nodes_) {
    const Unfit one = classify(state, shape);
    sum.closed += one.closed;
    sum.filtered += one.filtered;
    sum.wrong_model += one.wrong_model;
    sum.too_small += one.too_small;
    sum.cpu += one.cpu;
    sum.memory += one.memory;
    sum.devices += one.devices;
    sum.fragmentation += one.fragmentation;
    sum.fits += one.fits;
  }
  return sum;
}

Placement Fleet::on_device(NodeIndex node, const Shape& shape, int device) const {
  Placement placement{.node = node,
                      .devices = static_cast<std::uint16_t>(1U << static_cast<unsigned>(device))};
  if (shape.profile != 0) {
    const Geometry& table = geometry(spec(node));
    const DeviceState& state = nodes_[node].devices[static_cast<std::size_t>(device)];
    const PartitionProfile* profile = table.find(shape.profile);
    TRANCHE_CHECK(profile != nullptr);
    placement.set_slot(device, table.best_start(*profile, state.slots_used).value_or(0));
  }
  return placement;
}

std::optional<Placement> Fleet::tightest(NodeIndex node, const Shape& shape) const {
  if (!fits(node, shape)) return std::nullopt;
  const NodeState& state = nodes_[node];
  Placement placement{.node = node};
  for (int taken = 0; taken < shape.devices; ++taken) {
    int best = -1;
    std::tuple<int, std::int64_t> best_left;
    for (int i = 0; i < state.device_count; ++i) {
      const DeviceState& device = state.devices[static_cast<std::size_t>(i)];
      if (((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) != 0 ||
          !device_fits(spec(node), device, shape))
        continue;
      const std::tuple<int, std::int64_t> left{device.milli_left, device.vram_left};
      if (best >= 0 && left >= best_left) continue;
      best = i;
      best_left = left;
    }
    TRANCHE_CHECK(best >= 0);
    const Placement one = on_device(node, shape, best);
    placement.devices = static_cast<std::uint16_t>(placement.devices | one.devices);
    placement.slots |= one.slots;
  }
  return placement;
}

void Fleet::take_device(const NodeSpec& spec, DeviceState& device, const Shape& shape, int slot) const {
  TRANCHE_CHECK(device_fits(spec, device, shape));
  ++device.tenants;
  if (shape.profile != 0) {
    const PartitionProfile& profile = *geometries_[spec.geometry].find(shape.profile);
    const std::uint16_t slots = profile.slots_at(slot);
    TRANCHE_CHECK(((profile.starts >> slot) & 1U) != 0 && (slots & device.slots_used) == 0);
    device.mode = DeviceMode::kPartitioned;
    device.slots_used = static_cast<std::uint16_t>(device.slots_used | slots);
    device.milli_left = static_cast<std::int16_t>(device.milli_left - profile.milli);
    device.vram_left -= profile.vram;
    TRANCHE_CHECK(device.milli_left >= 0 && device.vram_left >= 0);
  } else if (shape.milli >= kDeviceMilli) {
    device.mode = DeviceMode::kWhole;
    device.milli_left = 0;
    device.vram_left = 0;
  } else {
    device.mode = DeviceMode::kShared;
    device.trust_group = shape.trust_group;
    device.milli_left = static_cast<std::int16_t>(device.milli_left - shape.milli);
    device.vram_left -= shape.vram;
    TRANCHE_CHECK(device.milli_left >= 0 && device.vram_left >= 0);
  }
}

void Fleet::release_device(const NodeSpec& spec, DeviceState& device, const Shape& shape, int slot) const {
  TRANCHE_CHECK(device.tenants > 0);
  --device.tenants;
  if (device.tenants == 0) {
    // What keep_slots() closed stays closed until it is given back.
    const unsigned own =
        shape.profile != 0 ? geometries_[spec.geometry].find(shape.profile)->slots_at(slot) : 0U;
    device = DeviceState{.slots_used = static_cast<std::uint16_t>(device.slots_used & ~own),
                         .vram_left = spec.vram,
                         .blocked = device.blocked};
    return;
  }
  if (shape.profile != 0) {
    const PartitionProfile& profile = *geometries_[spec.geometry].find(shape.profile);
    TRANCHE_CHECK((device.slots_used & profile.slots_at(slot)) == profile.slots_at(slot));
    device.slots_used = static_cast<std::uint16_t>(device.slots_used & ~profile.slots_at(slot));
    device.milli_left = static_cast<std::int16_t>(device.milli_left + profile.milli);
    device.vram_left += profile.vram;
  } else {
    TRANCHE_CHECK(device.mode == DeviceMode::kShared);
    device.milli_left = static_cast<std::int16_t>(device.milli_left + shape.milli);
    device.vram_left += shape.vram;
  }
  TRANCHE_CHECK(device.milli_left <= kDeviceMilli && device.vram_left <= spec.vram);
}

void Fleet::take(const Shape& shape, const Placement& placement) {
  NodeState& state = nodes_[placement.node];
  TRANCHE_CHECK(state.open);
  take_on(state, shape, placement);
  allocated_milli_ += shape.gpu_milli();
  ++state.version;
}

void Fleet::take_anyway(const Shape& shape, const Placement& placement) {
  NodeState& state = nodes_[placement.node];
  std::uint32_t blocked = 0;
  for (int i = 0; i < state.device_count; ++i) {
    bool& closed = state.devices[static_cast<std::size_t>(i)].blocked;
    blocked |= closed ? 1U << static_cast<unsigned>(i) : 0U;
    closed = false;
  }
  take_on(state, shape, placement);
  for (int i = 0; i < state.device_count; ++i)
    state.devices[static_cast<std::size_t>(i)].blocked = ((blocked >> static_cast<unsigned>(i)) & 1U) != 0;
  allocated_milli_ += shape.gpu_milli();
  ++state.version;
}

void Fleet::take_on(NodeState& state, const Shape& shape, const Placement& placement) const {
  const NodeSpec& spec = types_[state.type];
  TRANCHE_CHECK(state.cpu_left >= shape.cpu_milli && state.memory_left >= shape.memory_mib);
  state.cpu_left -= shape.cpu_milli;
  state.memory_left -= shape.memory_mib;
  int taken = 0;
  for (int i = 0; i < state.device_count; ++i) {
    if (((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) == 0) continue;
    take_device(spec, state.devices[static_cast<std::size_t>(i)], shape, placement.slot(i));
    ++taken;
  }
  TRANCHE_CHECK(taken == shape.devices);
  if (shape.devices > 0) ++state.hosted[static_cast<std::size_t>(shape.whole() ? shape.devices : 0)];
}

bool Fleet::fits_at(const NodeState& state, const Shape& shape, const Placement& placement) const {
  if (!state.open || state.cpu_left < shape.cpu_milli || state.memory_left < shape.memory_mib) return false;
  const NodeSpec& spec = types_[state.type];
  for (int i = 0; i < state.device_count; ++i) {
    const bool meant = ((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) != 0;
    if (meant && !device_fits(spec, state.devices[static_cast<std::size_t>(i)], shape)) return false;
  }
  return true;
}

std::uint32_t Fleet::members_of_empty(const NodeSpec& spec, const Shape& shape) const {
  if (!type_allows(spec, shape)) return 0;
  NodeState state;
  state.type = static_cast<TypeIndex>(std::find(types_.begin(), types_.end(), spec) - types_.begin());
  state.cpu_left = spec.cpu_milli;
  state.memory_left = spec.memory_mib;
  state.device_count = static_cast<std::uint8_t>(spec.devices);
  for (int i = 0; i < spec.devices; ++i) state.devices[static_cast<std::size_t>(i)].vram_left = spec.vram;
  if (!state_fits(state, shape)) return 0;
  std::int64_t members = INT32_MAX;
  if (shape.cpu_milli > 0) members = std::min(members, spec.cpu_milli / shape.cpu_milli);
  if (shape.memory_mib > 0) members = std::min(members, spec.memory_mib / shape.memory_mib);
  if (shape.devices > 0)
    members = std::min<std::int64_t>(members, spec.devices / shape.devices * per_device(spec, shape));
  return static_cast<std::uint32_t>(members);
}

// Slices of the shape that one empty device holds, at least one.
std::int64_t Fleet::per_device(const NodeSpec& spec, const Shape& shape) const {
  if (shape.whole()) return 1;
  DeviceState device{.vram_left = spec.vram};
  std::int64_t count = 0;
  while (device_fits(spec, device, shape)) {
    int slot = 0;
    if (shape.profile != 0) {
      const Geometry& table = geometries_[spec.geometry];
      slot = table.best_start(*table.find(shape.profile), device.slots_used).value_or(0);
    }
    take_device(spec, device, shape, slot);
    if (++count == kDeviceMilli) break;
  }
  return std::max<std::int64_t>(count, 1);
}

void Fleet::release(const Shape& shape, const Placement& placement) {
  release_from(nodes_[placement.node], shape, placement);
  allocated_milli_ -= shape.gpu_milli();
  ++nodes_[placement.node].version;
}

void Fleet::release_from(NodeState& state, const Shape& shape, const Placement& placement) const {
  const NodeSpec& spec = types_[state.type];
  state.cpu_left += shape.cpu_milli;
  state.memory_left += shape.memory_mib;
  TRANCHE_CHECK(state.cpu_left <= spec.cpu_milli && state.memory_left <= spec.memory_mib);
  for (int i = 0; i < state.device_count; ++i) {
    if (((static_cast<unsigned>(placement.devices) >> static_cast<unsigned>(i)) & 1U) == 0) continue;
    release_device(spec, state.devices[static_cast<std::size_t>(i)], shape, placement.slot(i));
  }
  if (shape.devices > 0) --state.hosted[static_cast<std::size_t>(shape.whole() ? shape.devices : 0)];
}

}  // namespace tranche::policy
