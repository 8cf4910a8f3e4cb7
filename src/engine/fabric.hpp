// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes that reach each other fast: those with the same value of the label `fabric` (a rack, a rail, a
// switch).
#include <set>
#include <vector>

#include "engine/state.hpp"

namespace tranche::engine {

// For each fabric that has several nodes, or whatever else the topology asks to be the same for all members
// (a node, a site), all nodes that are not on it. Only those that may have room for so many of the shape, the
// smallest first, so that large ones stay free for large gangs.
[[nodiscard]] std::vector<std::set<NodeId>> outside_of(const State&,
                                                       wire::Topology,
                                                       const policy::Shape&,
                                                       std::uint32_t members);

}  // namespace tranche::engine
