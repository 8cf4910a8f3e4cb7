// SPDX-License-Identifier: Apache-2.0
#pragma once
// A chunk's loop over its units, as a shell script that runs inside the sandbox: one run of the command for
// each unit, a verdict for each, and what it left in $TRANCHE_OUTPUT packed up before the next one works. It
// starts no process of its own for a unit that leaves nothing.
#include <filesystem>
#include <string>

#include "agent/sandbox_plan.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

inline constexpr const char* kProgressInside = "/run/job/progress";

// "frame" of {frames: 1..240}; empty: the job has no units.
[[nodiscard]] std::string unit_name(const wire::JobSpec& spec);
// The loop itself, over the lines of a file that may grow while it runs.
[[nodiscard]] std::string unit_loop(const std::string& name, const std::string& file);
// A line for each unit.
[[nodiscard]] std::string unit_lines(const std::string& command,
                                     const std::string& name,
                                     const wire::UnitSet& units);
inline constexpr const char* kUnitCommand = "unit-command";  // In the lease's folder, not in the sandbox.
void append_units(const std::filesystem::path& lease_folder, const std::string& lines);

// The files of the protocol in the lease's folder, and their places in the sandbox. Throws
// std::runtime_error.
void add_progress_files(SandboxPlan& plan, const wire::LeaseGrant& grant);

}  // namespace tranche::agent
