// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files that a job sees, put together by root in a mount namespace that belongs to the job alone. Only in
// the first process of new mount and process namespaces.
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

// Afterwards `/` is the sandbox's, read-only but for writable binds, and nothing of the node's own tree is
// left to walk to. Returns a descriptor of /proc/sys that can still be written, for the last settings of the
// caller. Throws std::runtime_error.
[[nodiscard]] int enter_sandbox_root(const SandboxPlan& plan, const std::vector<Bind>& binds);

}  // namespace tranche::agent
