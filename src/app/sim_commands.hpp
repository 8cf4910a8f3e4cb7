// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands below `tranche sim`, each in a file of its own.
#include <string>

namespace CLI {
class App;
}

namespace tranche::cli {
class Program;
}

namespace tranche::app {

// One file with a report's charts; throws when it cannot be written.
void write_page(const std::string& path, const std::string& html);

void add_sim_pack(CLI::App& sim, cli::Program& program);
void add_sim_replay(CLI::App& sim, cli::Program& program);
void add_sim_whatif(CLI::App& sim, cli::Program& program);

}  // namespace tranche::app
