// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every group of commands of the `tranche` binary, each in a file of its own beside this one.
//
// A group adds its subcommands with CLI11. A subcommand's callback does the work; `status` becomes the exit
// code.

namespace CLI {
class App;
}

namespace tranche::cli {
class Program;
}

namespace tranche::app {

void add_audit_commands(CLI::App& root, cli::Program& program);
void add_server_commands(CLI::App& root, int& status);
void add_size_command(CLI::App& root, cli::Program& program);
// `status` is what the process ends with when a command ran another program.
void add_guard_commands(CLI::App& root, cli::Program& program, int& status);
void add_device_commands(CLI::App& root, cli::Program& program);
void add_agent_commands(CLI::App& root, int& status);
void add_door_command(CLI::App& root, int& status);
void add_sim_commands(CLI::App& root, cli::Program& program);
void add_advise_command(CLI::App& root, cli::Program& program);

}  // namespace tranche::app
