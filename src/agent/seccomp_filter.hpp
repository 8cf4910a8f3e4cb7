// SPDX-License-Identifier: Apache-2.0
#pragma once
// What no job may ask of the kernel. bubblewrap loads the filter as its last act before the job's command.
#include <string>
#include <string_view>
#include <vector>

namespace tranche::agent {

// Names of the calls that are refused with EPERM whatever their arguments, for documents and tests.
[[nodiscard]] const std::vector<std::string_view>& refused_calls();

// The filter as the kernel takes it (an array of sock_filter). Throws std::runtime_error when libseccomp
// cannot make it.
[[nodiscard]] std::string seccomp_program();

// Puts the filter on the calling thread, for sessions that enter a sandbox from outside.
bool load_seccomp_program(std::string_view program);

}  // namespace tranche::agent
