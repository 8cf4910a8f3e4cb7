// SPDX-License-Identifier: Apache-2.0
// The tree of commands as a whole: every command explains itself.
#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/command_tree.hpp"
#include "cli/commands.hpp"

namespace tranche::cli {
namespace {

struct World {
  CLI::App root{"about", "tranche"};
  Program program{Environment{}};
  World() {
    root.fallthrough();
    add_global_flags(root, program);
    add_client_commands(root, program);
  }
};

template <class Visit>
void each(const CommandNode& node, const std::string& path, const Visit& visit) {
  visit(node, path);
  for (const CommandNode& child : node.commands) each(child, path + " " + child.name, visit);
}

TEST_CASE("help: every command has one line about it and an example that begins with its name") {
  const World world;
  std::size_t commands = 0;
  each(command_tree(world.root), "tranche", [&](const CommandNode& node, const std::string& path) {
    CAPTURE(path);
    CHECK_FALSE(node.about.empty());
    if (path == "tranche") return;
    ++commands;
    REQUIRE_FALSE(node.examples.empty());
    CHECK(node.examples.front().find(path) != std::string::npos);
    for (const CommandOption& option : node.options) CHECK_FALSE(option.about.empty());
  });
  CHECK(commands >= 50);
}

TEST_CASE("help: one command by itself is declared as in the whole tree") {
  const World world;
  const CommandNode tree = command_tree(world.root);
  std::size_t alone = 0;
  for (const CommandNode& whole : tree.commands) {
    CAPTURE(whole.name);
    CLI::App root{"about", "tranche"};
    Program program{Environment{}};
    if (!add_client_commands_of(whole.name, root, program)) {
      CHECK((whole.name == "help" || whole.name == "completion"));
      continue;
    }
    ++alone;
    const CommandNode few = command_tree(root);
    const auto same = std::find_if(few.commands.begin(), few.commands.end(), [&](const CommandNode& one) {
      return one.name == whole.name;
    });
    REQUIRE(same != few.commands.end());
    CHECK(command_tree_json(*same) == command_tree_json(whole));
  }
  CHECK(alone + 2 == tree.commands.size());
  CLI::App root{"about", "tranche"};
  Program program{Environment{}};
  CHECK_FALSE(add_client_commands_of("", root, program));
  CHECK_FALSE(add_client_commands_of("--help", root, program));
}

TEST_CASE("help: no command takes an option of every command for its own") {
  const World world;
  const CommandNode tree = command_tree(world.root);
  std::vector<std::string> global;
  for (const CommandOption& option : tree.options) {
    for (const std::string& name : option.names) {
      if (name != "--help" && name != "-h") global.push_back(name);
    }
  }
  for (const CommandNode& child : tree.commands) {
    each(child, child.name, [&](const CommandNode& node, const std::string& path) {
      for (const CommandOption& option : node.options) {
        for (const std::string& name : option.names) {
          CAPTURE(path + " " + name);
          CHECK(std::find(global.begin(), global.end(), name) == global.end());
        }
      }
    });
  }
}

TEST_CASE("completion: the scripts of all shells name every command") {
  const World world;
  const CommandNode tree = command_tree(world.root);
  for (const Shell shell : {Shell::kBash, Shell::kZsh, Shell::kFish}) {
    const std::string script = completion_script(tree, shell);
    each(tree, "", [&](const CommandNode& node, const std::string&) {
      CAPTURE(node.name);
      CHECK(script.find(node.name) != std::string::npos);
    });
    CHECK(script.find("jsonl") != std::string::npos);
  }
}

TEST_CASE("help: the tree as JSON is JSON") {
  const World world;
  const std::string json = command_tree_json(command_tree(world.root));
  CHECK(indented_json(json).starts_with("{\n  \"name\": \"tranche\""));
}

}  // namespace
}  // namespace tranche::cli
