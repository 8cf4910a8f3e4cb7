// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pausing a tenant so that its device memory is free for others, and going on with the same result.
//
// Launches wait at the gate. CUDA processes are checkpointed by their driver (12.8 and later); OpenCL
// processes move their memory themselves when they see the word. What neither can move stays charged, and is
// told.
#include <cstdint>
#include <string>

#include "guard/broker_client.hpp"

namespace tranche::guard {

struct PauseReport {
  std::uint64_t held_bytes = 0;    // On all devices, before.
  std::uint64_t held_after = 0;    //
  std::uint32_t checkpointed = 0;  // Processes whose driver did it.
  std::string trouble;             // Empty, or why something stayed.
};

// Waits until the memory is back or `patience_ns` is over.
PauseReport pause_tenant(BrokerClient& broker, const std::string& name, std::uint64_t patience_ns);
// All or nothing for each process; one that finds no room stays paused, and the tenant with it.
PauseReport resume_tenant(BrokerClient& broker, const std::string& name);

}  // namespace tranche::guard
