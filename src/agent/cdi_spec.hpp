// SPDX-License-Identifier: Apache-2.0
#pragma once
// The slice of a lease in the words of the Container Device Interface: device files, the guard, and the names
// of devices. The container runtime that the agent starts is told the same; so is any that an operator starts
// beside.
#include <string>
#include <utility>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

struct CdiEdits {
  std::vector<std::pair<std::string, std::string>> environment{};
  std::vector<Bind> devices{};
  std::vector<Bind> mounts{};
};
[[nodiscard]] CdiEdits cdi_edits(const SandboxPlan& plan);
[[nodiscard]] std::string cdi_specification(const SandboxPlan& plan);

}  // namespace tranche::agent
