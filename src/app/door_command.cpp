// SPDX-License-Identifier: Apache-2.0
// door: the agent's way into a sandbox for a service's requests; nobody types this.
#include <cstdint>
#include <memory>

#include "agent/service_door.hpp"
#include "app/commands.hpp"
#include "cli/command.hpp"

namespace tranche::app {

void add_door_command(const cli::Command& root, int& status) {
  struct Flags {
    int init = 0;
    std::uint16_t port = 0;
  };
  const auto flags = std::make_shared<Flags>();
  const cli::Command command = cli::add_local_command(root,
                                                      {"door",
                                                       "Carry requests into a sandbox (started by the agent)",
                                                       "tranche door --init 4711 --port 8000"});
  command.hide();
  command.add_option("--init", flags->init, "First process of the sandbox").required();
  command.add_option("--port", flags->port, "Where the service listens inside").required();
  command.callback([flags, &status] {
    constexpr int kListener = 3;
    status = agent::run_door(kListener, flags->init, flags->port);
  });
}

}  // namespace tranche::app
