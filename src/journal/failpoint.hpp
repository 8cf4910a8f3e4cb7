// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named places where a test makes the process die, fail or wait: TRANCHE_FAILPOINTS=name:action[:count],...
// with action kill, error or delay; it fires from the count-th pass on (1 when not given). Off, a failpoint
// costs one relaxed load.
#include <atomic>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace tranche::journal {

struct FailpointError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace failpoint_detail {
extern std::atomic<bool> armed;  // NOLINT(*-non-const-global-variables): the switch of a global facility
void pass(std::string_view name);
}  // namespace failpoint_detail

// kill: SIGKILL to the own process. error: throws FailpointError. delay: waits 20 ms.
inline void failpoint(std::string_view name) {
  if (failpoint_detail::armed.load(std::memory_order_relaxed)) failpoint_detail::pass(name);
}

// Replaces what the environment said; an empty text turns everything off. Throws std::invalid_argument.
void arm_failpoints(std::string_view spec);
// The names in this module, for tests that kill at each of them. Other modules may use names of their own.
[[nodiscard]] std::vector<std::string_view> failpoint_names();

}  // namespace tranche::journal
