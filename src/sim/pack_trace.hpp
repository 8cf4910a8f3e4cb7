// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fleet and a list of jobs in the openb layout (Alibaba cluster-trace-gpu-v2023), read as published.
#include <cstdint>
#include <string>
#include <vector>

#include "policy/placement_policy.hpp"

namespace tranche::sim {

// Model names by bit number, in order of first appearance.
struct ModelNames {
  std::vector<std::string> names;
  int intern(const std::string& name);
};

struct TraceNode {
  std::string name;
  policy::NodeSpec spec;
};

struct PackNodes {
  std::vector<TraceNode> nodes;  // Sorted by name.
  std::int64_t capacity_milli = 0;
};

struct PackTasks {
  std::vector<policy::Shape> kinds;  // Distinct shapes, in order of first appearance.
  std::vector<std::uint32_t> tasks;  // Kind of each task, in file order.
  [[nodiscard]] std::vector<policy::Demand> demand() const;
};

// Read the nodes first: model numbers are shared. Both throw TraceError.
PackNodes read_nodes(const std::string& path, ModelNames& models);
PackTasks read_tasks(const std::string& path, ModelNames& models);

// The same fleet and work `times` over, for trials at scale.
PackNodes replicated(const PackNodes& nodes, int times);
PackTasks replicated(const PackTasks& tasks, int times);

// Both lists as one, the second's kinds numbered anew (old number to new in `second_kinds`). The tasks are
// those of both, each list counted so often that it makes half: what a policy with foreknowledge is told.
PackTasks merged(const PackTasks& first, const PackTasks& second, std::vector<std::uint32_t>& second_kinds);

}  // namespace tranche::sim
