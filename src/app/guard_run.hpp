// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs one command inside limits, with the guard alone: no server, no agent.
#include <cstdint>
#include <string>
#include <vector>

#include "guard/broker_wire.hpp"

namespace tranche::app {

struct GuardRun {
  std::string tenant;
  std::string broker_socket;  // Started if nobody answers there.
  guard::DeviceLimits limits;
  std::uint32_t devices = 1;
  std::uint64_t time_ns = 0;   // Zero: no limit.
  std::uint64_t grace_ns = 0;  // Between the checkpoint signal and the end.
  int checkpoint_signal = 15;
  bool quiet = false;
  std::vector<std::string> command;
};

// Returns the command's exit code, 128 + signal, or cli::kTimedOut.
int guard_run(const GuardRun& run);
// The socket of this user's own broker.
std::string default_broker_socket();
// libtranche-guard.so beside the binary, or in the library folder of the same installation.
std::string guard_library();

}  // namespace tranche::app
