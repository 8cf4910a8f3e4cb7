// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands below `tranche sim`, each in a file of its own.
#include <string>

namespace tranche::cli {
class Command;
class Program;
}  // namespace tranche::cli

namespace tranche::app {

// One file with a report's charts; throws when it cannot be written.
void write_page(const std::string& path, const std::string& html);

void add_sim_pack(const cli::Command& sim, cli::Program& program);
void add_sim_replay(const cli::Command& sim, cli::Program& program);
void add_sim_whatif(const cli::Command& sim, cli::Program& program);

}  // namespace tranche::app
