// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of commands about what runs and what is kept on the fleet.
#include "cli/commands.hpp"

namespace tranche::cli {

void add_volume_commands(const Command& root, Program& program);    // volume
void add_repair_commands(const Command& root, Program& program);    // repair
void add_top_command(const Command& root, Program& program);        // top
void add_behaviour_command(const Command& root, Program& program);  // behaviour

}  // namespace tranche::cli
