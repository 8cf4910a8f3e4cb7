// SPDX-License-Identifier: Apache-2.0
#pragma once
// Would a link that a job left behind lead one of its mounts to another place than the one it named?
#include <string>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

// The target of the first mount of the job's own choice with a link on its way; empty where there is none.
// What is attached last would otherwise cover what was attached before it: accounts, drivers, the guard.
[[nodiscard]] std::string misled_mount(const std::vector<Bind>& binds);

}  // namespace tranche::agent
