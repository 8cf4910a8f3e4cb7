// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of commands about what runs and what is kept on the fleet.
#include "cli/commands.hpp"

namespace tranche::cli {

void add_volume_commands(CLI::App& root, Program& program);    // volume
void add_top_command(CLI::App& root, Program& program);        // top
void add_behaviour_command(CLI::App& root, Program& program);  // behaviour

}  // namespace tranche::cli
