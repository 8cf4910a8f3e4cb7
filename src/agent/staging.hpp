// SPDX-License-Identifier: Apache-2.0
#pragma once
// Between fork and bubblewrap: into the control group, into a private view of the node, and to the job's own
// user. Only in a child of the single-threaded supervisor.
#include <string>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

// Shows the sources of `binds` at places that the job's user can reach, though it may not walk to their real
// ones, and returns the binds with those places. Throws std::runtime_error.
[[nodiscard]] std::vector<Bind> stage(std::vector<Bind> binds);
// For good: groups, then user. False: stay away from exec.
[[nodiscard]] bool become_user(std::uint32_t uid);
// Everything but 0, 1, 2 and `kept` is closed; those are left open over exec.
void close_others(const std::vector<int>& kept);

}  // namespace tranche::agent
