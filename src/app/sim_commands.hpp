// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands below `tranche sim`, each in a file of its own.

namespace CLI {
class App;
}

namespace tranche::cli {
class Program;
}

namespace tranche::app {

void add_sim_pack(CLI::App& sim, cli::Program& program);
void add_sim_replay(CLI::App& sim, cli::Program& program);
void add_sim_whatif(CLI::App& sim, cli::Program& program);

}  // namespace tranche::app
