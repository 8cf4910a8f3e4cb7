// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tree of commands as plain data: what completion scripts, `help --json` and tests are made from.
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tranche::cli {

struct CommandOption {
  std::vector<std::string> names{};  // --output, -o; a positional has one name without dashes.
  std::string about{};
  std::string value{};  // What it takes; empty: a flag.
  bool positional = false;
  bool required = false;
  bool many = false;
};

struct CommandNode {
  std::string name{};
  std::string about{};
  std::vector<std::string> examples{};
  std::vector<CommandOption> options{};
  std::vector<CommandNode> commands{};
};

CommandNode command_tree(const CLI::App& root);
std::string command_tree_json(const CommandNode& root);

enum class Shell { kBash, kZsh, kFish };
std::string completion_script(const CommandNode& root, Shell shell);

// Values an option takes, for completion: `-o` has a closed list, others are files or free text.
std::vector<std::string> known_values(const CommandOption& option);

}  // namespace tranche::cli
