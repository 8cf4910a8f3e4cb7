// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way into a sandbox for a service's requests: a process that listens on the node and connects inside the
// sandbox's own network, so that a job without a network can still be asked something. It moves bytes and
// knows nothing of them.
#include <cstdint>
#include <string>

namespace tranche::agent {

// The process itself: `listener` is open already, `init` is the sandbox's first process. Until that ends.
int run_door(int listener, int init, std::uint16_t port_inside);

struct ServiceDoor {
  int process = -1;
  std::uint16_t port = 0;  // On the node.
};
// Starts one as `program door ...`. Throws std::runtime_error.
ServiceDoor open_service_door(const std::string& program,
                              const std::string& address,
                              int init,
                              std::uint16_t port_inside);
void close_service_door(ServiceDoor& door);

}  // namespace tranche::agent
