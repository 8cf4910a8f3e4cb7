// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a process gives up before it becomes a job's, whichever way it came into the sandbox.
#include <string>
#include <string_view>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

// Every capability, also of programs it may start.
[[nodiscard]] bool drop_capabilities();
void limit_resources(const SandboxPlan& plan);
// The command line of this process, and of all that it forks, is not for jobs: they see that of their
// process 1.
void hide_arguments(std::string_view instead);
// As a program expects to find them at its start.
void unblock_signals();
// Everything but 0, 1, 2 and `kept` is closed; those are left open over exec.
void close_others(const std::vector<int>& kept);
// To one process. Zero and less, which the kernel takes for groups and for everybody, reach nobody.
void signal_process(int pid, int signal);
// For exec; valid as long as `words` is.
[[nodiscard]] std::vector<char*> exec_words(std::vector<std::string>& words);

}  // namespace tranche::agent
