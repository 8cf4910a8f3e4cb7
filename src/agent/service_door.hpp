// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way into a sandbox for a service's requests: a process that listens on the node and connects inside the
// sandbox's own network, so that a job without a network can still be asked something. It moves bytes and
// knows nothing of them.
#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/descriptor.hpp"
#include "net/sealed_doors.hpp"

namespace tranche::agent {

// The process itself: `listener` is open already, `init` is the sandbox's first process. Until that ends.
int run_door(int listener, int init, std::uint16_t port_inside);

struct ServiceDoor {
  int process = -1;
  std::uint16_t port = 0;  // On the node.
  Descriptor folder{};     // Of the socket that a sealed one listens on: its path is too long for some.
  [[nodiscard]] bool is_sealed() const { return folder.open(); }
};
// Starts one as `program door ...`, open to whoever reaches the address. Throws std::runtime_error.
ServiceDoor open_service_door(const std::string& program,
                              const std::string& address,
                              int init,
                              std::uint16_t port_inside);
// One that the gateway alone can use, wherever it is: `sealed` listens on the address, and passes on to a
// socket in the folder, which must be out of tenants' reach.
ServiceDoor open_sealed_door(const std::string& program,
                             net::SealedDoors& sealed,
                             const std::string& address,
                             const std::filesystem::path& folder,
                             int init,
                             std::uint16_t port_inside);
void close_service_door(ServiceDoor& door, net::SealedDoors* sealed);

}  // namespace tranche::agent
