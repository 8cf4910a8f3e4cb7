// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chunk's loop over its units, as a shell script that runs inside the sandbox: one run of the command for
// each unit, a verdict for each, and what it left in $TRANCHE_OUTPUT packed up while the next one works.
#include <filesystem>
#include <string>

#include "agent/sandbox_plan.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

inline constexpr const char* kProgressInside = "/run/job/progress";

// "frame" of {frames: 1..240}; empty: the job has no units.
[[nodiscard]] std::string unit_name(const wire::JobSpec& spec);
[[nodiscard]] std::string unit_loop(const std::string& command,
                                    const std::string& name,
                                    const wire::UnitSet& units);

// The files of the protocol in the lease's folder, and their places in the sandbox. Throws
// std::runtime_error.
void add_progress_files(SandboxPlan& plan, const wire::LeaseGrant& grant);

}  // namespace tranche::agent
