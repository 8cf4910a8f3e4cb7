// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings what a job saved on one node to another, through the server: one end sends, the other gathers from
// all nodes that the last attempt was on. Blocks; for a thread of chores.
#include <functional>
#include <string>
#include <vector>

#include "agent/checkpoints.hpp"
#include "net/client.hpp"
#include "wire/agent_message.hpp"

namespace tranche::agent {

// Empty when the server has it as a whole; otherwise why not.
[[nodiscard]] std::string send_checkpoint(const net::ClientOptions& server,
                                          const Checkpoints& saved,
                                          LeaseId lease);

struct GatherWish {
  LeaseId lease{};
  std::uint32_t attempt = 1;
  std::vector<wire::CheckpointSource> sources{};
  unsigned owner = 0;  // Of what is made; zero: whoever runs this.
};
struct Gathered {
  std::string problem{};             // Set: nothing was changed.
  std::vector<std::string> lines{};  // For the job's log.
  std::string resume{};              // The checkpoint to go on from; empty: none was named.
};
// `is_wanted`: asked now and then, so that a lease that has ended meanwhile is not waited for.
[[nodiscard]] Gathered gather_checkpoints(const net::ClientOptions& server,
                                          const Checkpoints& saved,
                                          const GatherWish& wish,
                                          const std::function<bool()>& is_wanted);

}  // namespace tranche::agent
