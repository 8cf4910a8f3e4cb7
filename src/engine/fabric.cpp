// SPDX-License-Identifier: Apache-2.0
#include "engine/fabric.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace tranche::engine {
namespace {

constexpr std::size_t kFabricsTried = 32;

}  // namespace

std::vector<std::set<NodeId>> outside_of_fabrics(const State& state) {
  std::map<std::string, std::set<NodeId>> by_name;
  for (const auto& [id, node] : state.nodes) {
    const std::string* fabric = node.labels.find("fabric");
    if (fabric != nullptr && takes_work(node)) by_name[*fabric].insert(id);
  }
  std::vector<const std::set<NodeId>*> fabrics;
  for (const auto& [name, nodes] : by_name)
    if (nodes.size() > 1) fabrics.push_back(&nodes);
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
