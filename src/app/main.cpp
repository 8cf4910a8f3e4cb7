// SPDX-License-Identifier: Apache-2.0
// The one `tranche` binary: server, agent, broker and the command for people, as subcommands.
#include "app/commands.hpp"
#include "cli/commands.hpp"
#include "cli/topics.hpp"

namespace tranche {
namespace {

void add_all_commands(const cli::Command& root, cli::Program& program, int& status) {
  cli::add_client_commands(root, program);
  app::add_audit_commands(root, program);
  app::add_server_commands(root, status);
  app::add_guard_commands(root, program, status);
  app::add_agent_commands(root, status);
  app::add_door_command(root, status);
  app::add_size_command(root, program);
  app::add_sim_commands(root, program);
  app::add_advise_command(root, program);
  app::add_device_commands(root, program);
  cli::arrange_by_topic(root);
}

}  // namespace
}  // namespace tranche

int main(int argc, char** argv) {
  using namespace tranche;
  const cli::Root root({.name = "tranche",
                        .about = "Tranche turns GPUs into shared, schedulable, tradable capacity.",
                        .version = TRANCHE_VERSION});
  cli::Program program(cli::read_environment());
  program.version = TRANCHE_VERSION;
  cli::add_global_flags(root, program);
  int status = cli::kOk;
  if (!cli::add_client_commands_of(argc > 1 ? argv[1] : "", root, program)) {
    add_all_commands(root, program, status);
  }
  const int code = cli::parse_and_run(root, program, argc, argv);
  return code == cli::kOk ? status : code;
}
