// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every group of commands of the `tranche` binary, each in a file of its own beside this one.
//
// A group adds its subcommands to the root. A subcommand's callback does the work; `status` becomes the exit
// code.

namespace tranche::cli {
class Command;
class Program;
}  // namespace tranche::cli

namespace tranche::app {

void add_audit_commands(const cli::Command& root, cli::Program& program);
void add_server_commands(const cli::Command& root, int& status);
void add_size_command(const cli::Command& root, cli::Program& program);
// `status` is what the process ends with when a command ran another program.
void add_guard_commands(const cli::Command& root, cli::Program& program, int& status);
void add_device_commands(const cli::Command& root, cli::Program& program);
void add_agent_commands(const cli::Command& root, int& status);
void add_door_command(const cli::Command& root, int& status);
void add_sim_commands(const cli::Command& root, cli::Program& program);
void add_advise_command(const cli::Command& root, cli::Program& program);

}  // namespace tranche::app
