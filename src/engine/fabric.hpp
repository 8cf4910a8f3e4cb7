// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nodes that reach each other fast: those with the same value of the label `fabric` (a rack, a rail, a
// switch).
#include <set>
#include <vector>

#include "engine/state.hpp"

namespace tranche::engine {

// For each fabric that has several nodes, all nodes that are not on it. The smallest fabric comes first, so
// that large ones stay free for large gangs.
[[nodiscard]] std::vector<std::set<NodeId>> outside_of_fabrics(const State&);

}  // namespace tranche::engine
