// SPDX-License-Identifier: Apache-2.0
#pragma once
// One command in the very sandbox that jobs get, without server or agent: for tests of it, and for operators
// who want to see what a job sees.
#include <string>

#include "agent/job_plan.hpp"
#include "agent/shim.hpp"

namespace tranche::agent {

struct SandboxTry {
  NodeRules rules{};
  wire::LeaseGrant grant{};
  std::filesystem::path guard_library{};
  bool container_runtime = true;  // For jobs with an image, where one is installed.
  std::string before{};           // A job of the same tenant whose place this one may take over; empty: none.
};
struct SandboxOutcome {
  wire::EndReason reason = wire::EndReason::kNone;
  int exit_code = 0;
  int exit_signal = 0;
  std::string message{}, output{}, errors{}, platform{};
  bool scratch_wiped = false;
};
[[nodiscard]] SandboxOutcome try_sandbox(const SandboxTry& wanted);

// The parts every supervisor on this machine shares. Throws std::runtime_error when bubblewrap is needed and
// missing.
[[nodiscard]] ShimWorld make_shim_world(const std::string& cgroup_parent = "tranche");
// The first user of jobs when the agent is root; zero when it is not.
[[nodiscard]] std::uint32_t default_uid_base();

}  // namespace tranche::agent
