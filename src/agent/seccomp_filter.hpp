// SPDX-License-Identifier: Apache-2.0
#pragma once
// What no job may ask of the kernel: as a filter for the kernel, and as lists for a container runtime.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tranche::agent {

// Names of the calls that are refused with EPERM whatever their arguments, for documents and tests.
[[nodiscard]] const std::vector<std::string_view>& refused_calls();

// Calls that are refused for what they are asked: when their argument `index`, of which `mask` alone counts,
// is `value`. A mask of zero: whatever they are asked.
struct RefusedUse {
  std::string_view call{};
  unsigned index = 0;
  std::uint64_t mask = 0;
  std::uint64_t value = 0;
  int error = 0;
};
[[nodiscard]] const std::vector<RefusedUse>& refused_uses();

// The filter as the kernel takes it (an array of sock_filter). Throws std::runtime_error when libseccomp
// cannot make it.
[[nodiscard]] std::string seccomp_program();

// Puts the filter on the calling thread, for sessions that enter a sandbox from outside.
bool load_seccomp_program(std::string_view program);

}  // namespace tranche::agent
