// SPDX-License-Identifier: Apache-2.0
// A node is what its devices are: one that is connected and has nothing fit for work is not ready.
#include <map>

#include "engine/device_life.hpp"
#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

using wire::NodeCondition;

struct Tally {
  std::size_t all = 0;  // Retired ones are not counted.
  std::size_t healthy = 0, probation = 0, suspect = 0, draining = 0, testing = 0, maintenance = 0;
};

Tally count(const State& state, const Node& node) {
  Tally out;
  for (const DeviceId id : node.devices) {
    const Device& device = state.devices.at(id);
    if (device.state == DeviceState::kRetired) continue;
    ++out.all;
    switch (device.state) {
      case DeviceState::kHealthy:
        ++out.healthy;
        break;
      case DeviceState::kScrubbing:  // From one tenant to the next, or before the first.
        ++(device.record.left_by != LeaseId{} ? out.healthy : out.testing);
        break;
      case DeviceState::kProbation:
        ++out.probation;
        break;
      case DeviceState::kSuspect:
        ++out.suspect;
        break;
      case DeviceState::kDraining:
        ++out.draining;
        break;
      case DeviceState::kNew:
      case DeviceState::kAccepting:
      case DeviceState::kResetting:
      case DeviceState::kValidating:
        ++out.testing;
        break;
      case DeviceState::kMaintenance:
        ++out.maintenance;
        break;
      default:
        break;
    }
  }
  return out;
}

NodeCondition by_devices(const Tally& seen) {
  if (seen.healthy == seen.all) return NodeCondition::kReady;
  if (seen.probation == seen.all) return NodeCondition::kProbation;
  if (seen.maintenance == seen.all) return NodeCondition::kMaintenance;
  if (seen.healthy + seen.probation + seen.suspect > 0) return NodeCondition::kDegraded;
  if (seen.draining > 0) return NodeCondition::kDraining;
  if (seen.testing > 0) return NodeCondition::kTesting;
  return seen.maintenance > 0 ? NodeCondition::kMaintenance : NodeCondition::kOutOfService;
}

}  // namespace

NodeCondition condition_of(const State& state, const Node& node) {
  switch (node.state) {
    case NodeState::kJoining:
      return NodeCondition::kJoining;
    case NodeState::kLost:
      return NodeCondition::kLost;
    case NodeState::kRetired:
      return NodeCondition::kRetired;
    default:
      break;
  }
  if (node.draining) return NodeCondition::kDraining;
  if (node.cordoned) return NodeCondition::kCordoned;
  if (node.devices.empty()) return NodeCondition::kReady;
  const Tally seen = count(state, node);
  return seen.all == 0 ? NodeCondition::kOutOfService : by_devices(seen);
}

std::string devices_words(const State& state, const Node& node) {
  using States = wire::detail::EnumTable<DeviceState>;
  std::map<DeviceState, std::size_t> counts;
  for (const DeviceId id : node.devices) ++counts[state.devices.at(id).state];
  std::string out;
  for (const DeviceState one : States::kValues)
    if (counts[one] > 0)
      out += (out.empty() ? "" : ", ") + std::to_string(counts[one]) + ' ' + std::string(wire::name_of(one));
  return out;
}

}  // namespace tranche::engine
