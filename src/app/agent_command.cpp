// SPDX-License-Identifier: Apache-2.0
// `tranche agent`: this machine's devices become capacity of a server, until SIGTERM.
#include <CLI/CLI.hpp>

#include "app/agent_commands.hpp"
#include "app/commands.hpp"

namespace tranche::app {

void add_agent_commands(CLI::App& root, int& status) {
  add_agent_sandbox_command(root, status);
}

}  // namespace tranche::app
