// SPDX-License-Identifier: Apache-2.0
// completion, help: what the program can say about itself.
#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/command_tree.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"

namespace tranche::cli {

void add_completion_command(const Command& root, Program&) {
  const auto shell = std::make_shared<std::string>();
  const Command command = add_command(root,
                                      {"completion",
                                       "Print a completion script",
                                       "source <(tranche completion bash)\n"
                                       "tranche completion fish > ~/.config/fish/completions/tranche.fish"});
  command.add_option("shell", *shell, "bash, zsh or fish").required();
  command.callback([shell, root] {
    const CommandNode tree = command_tree(root);
    if (*shell == "bash") return write_stdout(completion_script(tree, Shell::kBash));
    if (*shell == "zsh") return write_stdout(completion_script(tree, Shell::kZsh));
    if (*shell == "fish") return write_stdout(completion_script(tree, Shell::kFish));
    throw usage_failure("completion knows bash, zsh and fish, not '" + *shell + "'");
  });
}

void add_help_command(const Command& root, Program& program) {
  struct Options {
    bool json = false;
    std::vector<std::string> path{};
  };
  const auto options = std::make_shared<Options>();
  const Command command = add_command(root,
                                      {"help",
                                       "Help on a command, or all of it for programs",
                                       "tranche help quota set\ntranche help --json"});
  command.add_flag("--json", options->json, "The whole tree of commands as JSON");
  command.add_option("command", options->path, "Words of the command");
  command.callback([options, root, &program] {
    const CLI::App* at = &static_cast<CLI::App&>(root);
    std::string above;  // What to type before its name.
    for (const std::string& word : options->path) {
      above += (above.empty() ? "" : " ") + at->get_name();
      const auto found =
          at->get_subcommands([&](const CLI::App* child) { return child->get_name() == word; });
      if (found.empty()) {
        throw Failure(kNotFound,
                      {"there is no command '" + word + "' in " + at->get_name(), "see: tranche --help"});
      }
      at = found.front();
    }
    if (options->json || program.flags.output == "json")
      return write_stdout(indented_json(command_tree_json(command_tree(*at))));
    write_stdout(at->help(above, CLI::AppFormatMode::Normal));
  });
}

}  // namespace tranche::cli
