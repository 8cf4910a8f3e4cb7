// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts a job's command in namespaces of its own, when the agent is root: all that needs rights is done by
// root while nothing of the job runs yet, then the rights go for good, then the command starts. An agent that
// is not root leaves this to bubblewrap, which costs a program of its own at every start.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

struct LaunchDescriptors {
  int output = -1;
  int errors = -1;
  int info = -1;   // Gets a byte when the sandbox stands, and at the end how many processes there were. The
                   // supervisor holds the other end.
  int ready = -1;  // The command gets it as kReadyDescriptor.
  int go = -1;     // A byte comes when the network stands: the command waits for it. None: it does not.
};

// Namespaces that were made ahead; negative: one is made for this sandbox alone.
struct PreparedNamespaces {
  int mounts = -1;   // See prepare_sandbox_root.
  int network = -1;  // With a loopback and nothing else, and nobody in it.
};

struct SandboxLaunch {
  const SandboxPlan& plan;
  std::vector<Bind> binds{};  // Beside the system; those that jobs share come first.
  std::string_view filter{};  // seccomp
  std::vector<std::string> command{};
  LaunchDescriptors descriptors{};
  std::function<bool()> enter_group{};
  PreparedNamespaces prepared{};
  std::string_view
      runtime{};  // A container runtime that starts the command (sandbox_runtime.hpp); empty: we do.
};

// The process id of the sandbox's first process, a child of the caller; negative when the kernel refused.
// Only in a process of one thread.
[[nodiscard]] int launch_sandbox(const SandboxLaunch& launch);
// In the network namespace of the caller.
[[nodiscard]] bool raise_loopback();

}  // namespace tranche::agent
