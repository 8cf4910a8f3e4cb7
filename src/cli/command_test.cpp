// SPDX-License-Identifier: Apache-2.0
// What an option takes and refuses, and what a command says about itself.
#include "cli/command.hpp"

#include <doctest/doctest.h>

#include "cli/command_tree.hpp"
#include "cli/commands.hpp"

namespace tranche::cli {
namespace {

struct Values {
  int number = 0;
  unsigned count = 0;
  double ratio = 0;
  std::string word{};
};

// A program with one command; each run has values of its own.
template <class Declare>
int run(std::vector<std::string> words, const Declare& declare) {
  const Root root({.name = "tranche", .about = "about", .version = "1"});
  Program program{Environment{}};
  Values values;
  const Command command = add_local_command(root, {"try", "about", "tranche try"});
  declare(command, values);
  words.insert(words.begin(), {"tranche", "try"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return parse_and_run(root, program, static_cast<int>(arguments.size()), arguments.data());
}

TEST_CASE("command: an option refuses what it does not take, as a wrong use") {
  const auto declare = [](const Command& command, Values& values) {
    command.add_option("--number", values.number, "…").not_negative();
    command.add_option("--count", values.count, "…").between(1U, 64U);
    command.add_option("--most", values.number, "…").positive();
    command.add_option("--ratio", values.ratio, "…").between(0.25, 2.5);
    command.add_option("--word", values.word, "…").one_of({"on", "off"});
    command.add_option("--text", values.word, "…").checked_by([](const std::string& text) {
      return text == "right" ? "" : "not right";
    });
  };
  const std::vector<std::pair<const char*, const char*>> taken{{"--number", "0"},
                                                               {"--count", "64"},
                                                               {"--most", "1"},
                                                               {"--ratio", "2.5"},
                                                               {"--word", "off"},
                                                               {"--text", "right"}};
  for (const auto& [option, value] : taken) CHECK(run({option, value}, declare) == kOk);
  const std::vector<std::pair<const char*, const char*>> refused{{"--number", "-1"},
                                                                 {"--count", "0"},
                                                                 {"--count", "65"},
                                                                 {"--most", "0"},
                                                                 {"--ratio", "2.6"},
                                                                 {"--ratio", "0.2"},
                                                                 {"--word", "maybe"},
                                                                 {"--text", "wrong"}};
  for (const auto& [option, value] : refused) CHECK(run({option, value}, declare) == kUsage);
}

TEST_CASE("command: a value that a command finds wrong while it runs is a wrong use, too") {
  CHECK(run({}, [](const Command& command, Values&) {
          command.callback([] { throw WrongValue("--label", "write NAME=VALUE"); });
        }) == kUsage);
}

TEST_CASE("command: the tree has the examples of every kind of command") {
  const Root root({.name = "tranche", .about = "about", .version = "1"});
  const Command top = root;
  add_command(top, {"far", "about", "tranche far\ntranche far --off"});
  add_local_group(top, {"near", "about", "tranche near here\ntranche near there"});
  add_local_command(top, {"alone", "about", "tranche alone"});
  const CommandNode tree = command_tree(top);
  REQUIRE(tree.commands.size() == 3);
  CHECK(tree.commands[0].examples == std::vector<std::string>{"tranche far", "tranche far --off"});
  CHECK(tree.commands[1].examples == std::vector<std::string>{"tranche near here", "tranche near there"});
  CHECK(tree.commands[2].examples == std::vector<std::string>{"tranche alone"});
}

}  // namespace
}  // namespace tranche::cli
