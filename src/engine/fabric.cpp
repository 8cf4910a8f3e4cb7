// SPDX-License-Identifier: Apache-2.0
#include "engine/fabric.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

namespace tranche::engine {
namespace {

constexpr std::size_t kFabricsTried = 32;

// The name of what must be the same for all members.
std::optional<std::string> place_name(const Node& node, wire::Topology topology) {
  if (topology == wire::Topology::kNode) return node.name;
  if (topology == wire::Topology::kSite) return node.site;
  const std::string* fabric = node.labels.find("fabric");
  if (fabric != nullptr) return *fabric;
  return std::nullopt;
}

// As many members as its idle compute and processors could hold at most.
std::int64_t room_on(const Capacity& capacity, NodeId node, const policy::Shape& shape) {
  std::int64_t room = 0;
  for (const policy::NodeIndex index : capacity.groups_of(node)) {
    if (!capacity.fleet().fits(index, shape)) continue;
    const policy::NodeState& state = capacity.fleet().node(index);
    std::int64_t members = std::numeric_limits<std::int32_t>::max();
    if (shape.gpu_milli() > 0) members = std::min(members, state.idle_milli() / shape.gpu_milli());
    if (shape.cpu_milli > 0) members = std::min(members, state.cpu_left / shape.cpu_milli);
    room += std::max<std::int64_t>(members, 1);
  }
  return room;
}

}  // namespace

std::vector<std::set<NodeId>> outside_of(const State& state,
                                         wire::Topology topology,
                                         const policy::Shape& shape,
                                         std::uint32_t members) {
  std::map<std::string, std::set<NodeId>> by_name;
  std::map<std::string, std::int64_t> room;
  for (const auto& [id, node] : state.nodes) {
    const auto name = place_name(node, topology);
    if (!name || !takes_work(node)) continue;
    by_name[*name].insert(id);
    room[*name] += room_on(*state.index.capacity, id, shape);
  }
  std::erase_if(by_name, [&](const auto& place) { return room[place.first] < members; });
  std::vector<const std::set<NodeId>*> fabrics;
  for (const auto& [name, nodes] : by_name)
    if (nodes.size() > 1 || topology != wire::Topology::kAny) fabrics.push_back(&nodes);
  std::stable_sort(
      fabrics.begin(), fabrics.end(), [](const auto* a, const auto* b) { return a->size() < b->size(); });
  if (fabrics.size() > kFabricsTried) fabrics.resize(kFabricsTried);
  std::vector<std::set<NodeId>> outside(fabrics.size());
  for (std::size_t i = 0; i < fabrics.size(); ++i)
    for (const auto& [id, node] : state.nodes)
      if (!fabrics[i]->contains(id)) outside[i].insert(id);
  return outside;
}

}  // namespace tranche::engine
