// SPDX-License-Identifier: Apache-2.0
// Single devices: which take work at all, which not from everybody, and which are kept for who was on them.
#include <algorithm>

#include "engine/capacity.hpp"
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

// Whose all of it is; nobody's when several owe: then nobody gets the device before it is paid.
PartyId debtor_of(const State& state, const std::vector<LeaseId>& owed) {
  const PartyId first = state.leases.at(owed.front()).tenant;
  const bool one =
      std::all_of(owed.begin(), owed.end(), [&](LeaseId id) { return state.leases.at(id).tenant == first; });
  return one ? first : PartyId{};
}

}  // namespace

void Capacity::refresh_device(const State& state, const Device& device) {
  state.index.calendar->touched(device.id);
  const auto found = places_.find(device.id);
  if (found == places_.end()) return;
  const auto [index, position] = found->second;
  placer_.set_blocked(index, position, is_blocked(device));
  if (takes_work(device.state)) waiting_kinds_.node_freed(index);
  const bool probation = device.state == DeviceState::kProbation;
  restricted_.erase(device.id);
  if (takes_work(device.state) && (probation || device.record.dedicated_only))
    restricted_[device.id] = {probation, device.record.dedicated_only};
  if (device.state != DeviceState::kScrubbing && promising_.contains(device.record.left_by))
    keep_promise(state.leases.at(device.record.left_by));
  scrubbing_.erase(device.id);
  if (device.state == DeviceState::kScrubbing) scrubbing_.insert(device.id);
  kept_.erase(device.id);
  if (takes_work(device.state) && device.record.kept_for != PartyId{}) kept_.insert(device.id);
  const bool was_owed = owed_.erase(device.id) != 0;
  if (!device.record.owed.empty()) owed_[device.id] = debtor_of(state, device.record.owed);
  if (was_owed && device.record.owed.empty()) keep_promises_on(state, device.id);
  changed();
}

void Capacity::block(DeviceId id, std::vector<DeviceId>& blocked) {
  const auto [index, position] = places_.at(id);
  // What somebody else keeps closed stays closed when this choice is over.
  if (fleet().node(index).devices[static_cast<std::size_t>(position)].blocked) return;
  placer_.set_blocked(index, position, true);
  blocked.push_back(id);
}

void Capacity::block_owed(PartyId tenant, std::vector<DeviceId>& blocked) {
  for (const auto& [id, debtor] : owed_)
    if (debtor != tenant && places_.contains(id)) block(id, blocked);
}

void Capacity::block_restricted(bool preemptible, bool shares, std::vector<DeviceId>& blocked) {
  for (const auto& [id, limits] : restricted_) {
    if ((limits.first && !preemptible) || (limits.second && shares)) block(id, blocked);
  }
}

std::vector<DeviceId> Capacity::between_tenants(const State& state) const {
  std::vector<DeviceId> devices(kept_.begin(), kept_.end());
  for (const DeviceId id : scrubbing_)
    if (state.devices.at(id).record.left_by != LeaseId{}) devices.push_back(id);
  return devices;
}

std::vector<DeviceId> Capacity::open_kept(const State& state, PartyId tenant, const policy::Shape& shape) {
  std::vector<DeviceId> opened;
  if (!shape.whole()) return opened;
  for (const DeviceId id : kept_) {
    if (state.devices.at(id).record.kept_for != tenant || waits_for_window(id)) continue;
    const auto [index, position] = places_.at(id);
    placer_.set_blocked(index, position, false);
    opened.push_back(id);
  }
  return opened;
}

void Capacity::unblock(const std::vector<DeviceId>& blocked) {
  for (const DeviceId id : blocked) {
    const auto [index, position] = places_.at(id);
    placer_.set_blocked(index, position, false);
  }
}

}  // namespace tranche::engine
