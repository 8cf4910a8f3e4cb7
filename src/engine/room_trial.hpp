// SPDX-License-Identifier: Apache-2.0
#pragma once
// A copy of a node on which leases give way one by one, to see what would fit then.
#include <algorithm>
#include <map>

#include "engine/preempt.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

class RoomTrial {
 public:
  RoomTrial(const State& state, policy::NodeIndex index, const std::vector<Barred>& barred)
      : state_(state), index_(index), node_(state.index.capacity->fleet().node(index)) {
    // Of a node that is not connected nothing is known here.
    const std::vector<DeviceId>& devices = state.index.capacity->devices_of(index);
    for (const Barred& one : barred)
      if (one.slots != kAllSlots && std::find(devices.begin(), devices.end(), one.device) != devices.end())
        barred_.push_back(one);
  }

  [[nodiscard]] bool fits(const policy::Shape& shape) const {
    if (barred_.empty()) return fleet().state_fits(node_, shape);
    // Slots that are closed to it stay so when whoever is on them leaves.
    policy::NodeState left = node_;
    for (const Barred& one : barred_) {
      const int position = state_.index.capacity->position_of(one.device);
      std::uint16_t& used = left.devices[static_cast<std::size_t>(position)].slots_used;
      used = static_cast<std::uint16_t>(used | one.slots);
    }
    return fleet().state_fits(left, shape);
  }

  // As small as it can be, where it only becomes smaller.
  void yield(LeaseId id, Yield how) {
    const Ask least = state_.jobs.at(state_.leases.at(id).job).ask.smallest();
    yield({id, how, least.milli_each, least.vram_each});
  }

  // Whoever was asked to leave for somebody has done so, wiped and all.
  void leave(const Lease& lease) {
    const LeaseId id = lease.id;
    if (!lease.live() && lease.left) return open_left(id);
    if (!lease.holds_slices() || state_.job(lease.job) == nullptr) return;
    if (!lease.live() || lease.revoked) return yield({id, Yield::kStop});
    if (lease.change) return yield({id, Yield::kResize, lease.change->milli, lease.change->vram});
    yield({id, Yield::kPark});
  }

  // Where the least is left beside it; false: there is no room.
  bool take(const policy::Shape& shape) {
    if (!fleet().state_fits(node_, shape)) return false;
    const policy::NodeSpec& spec = fleet().types()[node_.type];
    std::multimap<int, int> fitting;  // By what is left.
    for (int i = 0; i < node_.device_count; ++i) {
      const policy::DeviceState& device = node_.devices[static_cast<std::size_t>(i)];
      if (fleet().device_fits(spec, device, shape)) fitting.emplace(device.milli_left, i);
    }
    policy::Placement placement;
    int wanted = shape.devices;
    for (const auto& [left, i] : fitting) {
      if (wanted-- == 0) break;
      placement.devices = static_cast<std::uint16_t>(placement.devices | (1U << static_cast<unsigned>(i)));
      if (shape.profile == 0) continue;
      const policy::Geometry& table = fleet().geometry(spec);
      const std::uint16_t used = node_.devices[static_cast<std::size_t>(i)].slots_used;
      placement.set_slot(i, table.best_start(*table.find(shape.profile), used).value_or(0));
    }
    fleet().take_on(node_, shape, placement);
    return true;
  }

  void yield(const Victim& victim) {
    const Capacity& capacity = *state_.index.capacity;
    const Lease& lease = state_.leases.at(victim.lease);
    const policy::Shape own = capacity.shape_of(lease, state_.jobs.at(lease.job).ask);
    const policy::Placement placement = capacity.placement_of(lease);
    const auto known = smaller_.find(victim.lease);
    fleet().release_from(node_, known == smaller_.end() ? own : known->second, placement);
    smaller_.erase(victim.lease);
    if (victim.how == Yield::kPark) {  // Its processes stay on the node.
      node_.cpu_left -= own.cpu_milli;
      node_.memory_left -= own.memory_mib;
    }
    if (victim.how != Yield::kResize) return;
    policy::Shape less = own;
    less.milli = static_cast<std::int32_t>(victim.milli);
    less.vram = victim.vram;
    stay(less, placement);
    smaller_.emplace(victim.lease, less);
  }

 private:
  void open_left(LeaseId by) {
    const Capacity& capacity = *state_.index.capacity;
    for (const DeviceId id : capacity.devices_of(index_)) {
      const Device& device = state_.devices.at(id);
      if (device.state == DeviceState::kScrubbing && device.record.left_by == by)
        node_.devices[static_cast<std::size_t>(capacity.position_of(id))].blocked = false;
    }
  }

  // Whoever is there becomes smaller, also where nobody new may go.
  void stay(const policy::Shape& shape, const policy::Placement& placement) {
    const auto before = node_.devices;
    for (policy::DeviceState& device : node_.devices) device.blocked = false;
    fleet().take_on(node_, shape, placement);
    for (std::size_t i = 0; i < before.size(); ++i) node_.devices[i].blocked = before[i].blocked;
  }

  [[nodiscard]] const policy::Fleet& fleet() const { return state_.index.capacity->fleet(); }

  const State& state_;
  policy::NodeIndex index_;
  policy::NodeState node_;
  std::vector<Barred> barred_;
  std::map<LeaseId, policy::Shape> smaller_;
};

}  // namespace tranche::engine
