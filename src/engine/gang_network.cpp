// SPDX-License-Identifier: Apache-2.0
#include "engine/gang_network.hpp"

#include <algorithm>

#include "engine/refusals.hpp"
#include "engine/state.hpp"

namespace tranche::engine {
namespace {

bool talks(const wire::Ask& ask) {
  return ask.gang_network && ask.nodes > 1 && !ask.simulated;
}

}  // namespace

std::optional<wire::Refusal> gang_network_problem(const State& state, const wire::Ask& ask) {
  if (!talks(ask)) return std::nullopt;
  std::size_t known = 0;
  for (const auto& [id, node] : state.nodes) {
    if (node.simulated || node.state == NodeState::kRetired || node.state == NodeState::kJoining) continue;
    if (node.features.gang_networks) return std::nullopt;
    ++known;
  }
  if (known == 0) return std::nullopt;  // It waits for nodes as any other job does.
  return invalid("network",
                 "the members of this gang could not reach each other: no node has a network for gangs",
                 "leave network out, or have agents run as root, or with --job-network host");
}

void close_unreachable(const State& state, const Job& job, std::set<NodeId>& closed) {
  if (!talks(job.ask)) return;
  for (const auto& [id, node] : state.nodes)
    if (!node.features.gang_networks) closed.insert(id);
}

}  // namespace tranche::engine
