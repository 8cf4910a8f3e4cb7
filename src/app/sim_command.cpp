// SPDX-License-Identifier: Apache-2.0
// `tranche sim …`: the engine's own policies on traces, faster than real time.
#include <fstream>
#include <stdexcept>

#include "app/commands.hpp"
#include "app/sim_commands.hpp"
#include "cli/command.hpp"

namespace tranche::app {

void write_page(const std::string& path, const std::string& html) {
  std::ofstream page(path);
  page << html << std::flush;
  if (!page) throw std::runtime_error(path + ": cannot be written");
}

void add_sim_commands(const cli::Command& root, cli::Program& program) {
  const cli::Command sim = cli::add_group(
      root, {"sim", "Run the scheduler on a trace, faster than real time", "tranche sim pack --help"});
  add_sim_pack(sim, program);
  add_sim_replay(sim, program);
  add_sim_whatif(sim, program);
  // Further simulations of the group are added here, one line each.
}

}  // namespace tranche::app
