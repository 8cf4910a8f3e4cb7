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

// The same, but left standing at kStagedRoot for somebody else to enter, with empty places for what he will
// put there.
inline constexpr const char* kStagedRoot = "/tmp";
void stage_sandbox_root(const SandboxPlan& plan,
                        const std::vector<Bind>& binds,
                        const std::vector<Bind>& later);

// Most of it is the same for every job on the node's own system. That part can be put together ahead, in a
// mount namespace that nobody is in: a job gets a copy of it, and adds what is its own.
// Negative when the kernel refuses. Only in a process of one thread.
[[nodiscard]] int prepare_sandbox_root(const std::vector<Bind>& shared);
// Whether all of these have a place in what was prepared.
[[nodiscard]] bool fits_prepared_root(const std::vector<Bind>& own);
// As enter_sandbox_root, in a process that is still in the node's mount namespace. `own`: beside what is
// shared.
[[nodiscard]] int enter_prepared_root(int prepared, const std::vector<Bind>& own);

}  // namespace tranche::agent
