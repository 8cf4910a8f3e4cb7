// SPDX-License-Identifier: Apache-2.0
#pragma once
// A plan in the words of bubblewrap. Options go to it through a descriptor, so that no secret of the job is
// in a command line that others on the node can read.
#include <string>
#include <vector>

#include "agent/sandbox_plan.hpp"

namespace tranche::agent {

constexpr std::uint32_t kUidInside = 1000;
constexpr int kReadyDescriptor = 3;

struct BubblewrapDescriptors {
  int seccomp = -1;
  int info = -1;
};
[[nodiscard]] std::vector<std::string> bubblewrap_options(const SandboxPlan& plan,
                                                          const std::vector<Bind>& binds,
                                                          BubblewrapDescriptors descriptors);
// What stands behind the options.
[[nodiscard]] std::vector<std::string> shell_command(const std::string& text, int checkpoint_signal);
// Path of the program; empty: it is not installed.
[[nodiscard]] std::string find_bubblewrap();

}  // namespace tranche::agent
