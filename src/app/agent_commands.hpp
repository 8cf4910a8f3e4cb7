// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of a node.

namespace tranche::cli {
class Command;
}

namespace tranche::app {

void add_agent_sandbox_command(const cli::Command& root, int& status);

}  // namespace tranche::app
