// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of a node.

namespace CLI {
class App;
}

namespace tranche::app {

void add_agent_sandbox_command(CLI::App& root, int& status);

}  // namespace tranche::app
