// SPDX-License-Identifier: Apache-2.0
#pragma once
// Jobs with an image through an OCI runtime, where one is installed. The agent puts the file system together
// and makes namespaces of processes and network, as for every job; the runtime does the rest by the
// configuration that it is given: user namespace, no rights, the filter, the command. crun is the one: it can
// be told to leave control groups alone, which hold the job already, and starts on machines with both kinds
// of them.
#include <string>

#include "agent/sandbox_launch.hpp"

namespace tranche::agent {

// Path of the program; empty: none is installed.
[[nodiscard]] std::string find_container_runtime();

// In the first process of new mount and process namespaces, as root: all that the runtime needs, in memory.
void set_up_for_runtime(const SandboxLaunch& launch);
// Ends in exec.
[[noreturn]] void become_runtime(std::string_view runtime);
// Whether the runtime has come as far as the job's own process.
[[nodiscard]] bool runtime_started_job();
// From the namespaces in which the runtime was started into those of the job: for commands beside it.
[[nodiscard]] bool enter_runtime_job();

}  // namespace tranche::agent
