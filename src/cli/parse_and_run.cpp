// SPDX-License-Identifier: Apache-2.0
// From argv to an exit code: parses, runs the command, and says in three lines what went wrong.
#include <CLI/CLI.hpp>

#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"

namespace tranche::cli {
namespace {

// The command as far as it was understood.
const CLI::App& deepest(const CLI::App& root) {
  const CLI::App* at = &root;
  for (auto parsed = at->get_subcommands(); !parsed.empty(); parsed = at->get_subcommands())
    at = parsed.front();
  return *at;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

std::vector<std::string_view> words_of(const CLI::App& command, bool options) {
  std::vector<std::string_view> words;
  if (options) {
    for (const CLI::App* at = &command; at != nullptr; at = at->get_parent()) {
      for (const CLI::Option* option : at->get_options()) {
        for (const std::string& name : option->get_lnames()) words.emplace_back(name);
      }
    }
  } else {
    for (const CLI::App* child : command.get_subcommands({})) words.emplace_back(child->get_name());
  }
  return words;
}

// "Could not convert: --limit = many", in the words of every other refusal. Texts are always taken: what
// could not be converted is no number.
std::string conversion_text(std::string_view said) {
  constexpr std::string_view kSaid = "Could not convert: ", kBetween = " = ";
  const std::size_t between = said.find(kBetween);
  if (!said.starts_with(kSaid) || between == std::string_view::npos) return std::string(said);
  return std::string(said.substr(kSaid.size(), between - kSaid.size())) + " takes a number, not '" +
         std::string(said.substr(between + kBetween.size())) + "'";
}

std::string where_help_is(const CLI::App& command) {
  return "see: " + path_of(command) + " --help";
}

Failure failure_of(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = deepest(root);
  std::string what = conversion_text(error.what());
  std::string hint;
  const std::vector<std::string> extras = root.remaining(true);
  // An option that is wrong stops the parser: what it has not read yet is no fault.
  const bool unread = dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr &&
                      dynamic_cast<const CLI::RequiredError*>(&error) == nullptr;
  if (!extras.empty() && !unread) {
    const std::string& word = extras.front();
    const bool option = word.starts_with("-");
    what = option ? path_of(command) + " has no option " + word
                  : (command.get_subcommands({}).empty()
                         ? path_of(command) + " does not take '" + word + "'"
                         : "there is no command '" + path_of(command) + " " + word + "'");
    const std::size_t start = std::min(word.find_first_not_of('-'), word.size());
    hint = wire::nearest_hint(word.substr(start, word.find('=') - start), words_of(command, option));
    if (option && !hint.empty()) hint.insert(hint.find('\'') + 1, "--");
  }
  std::replace(what.begin(), what.end(), '\n', ' ');
  const std::string next = where_help_is(command);
  return usage_failure(what, hint.empty() ? next : hint + " " + next);
}

void report(const Failure& failure, const Program& program) {
  std::string text = failure.text();
  if (text.empty()) return;
  if (program.may_colour_errors()) text.replace(0, 8, coloured("tranche:", Colour::kRed));
  write_stderr(text);
}

}  // namespace

int parse_and_run(const Command& command, Program& program, int argc, char** argv) {
  CLI::App& root = command;
  try {
    root.parse(argc, argv);
    return kOk;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return root.exit(error);  // --help, --version
    report(failure_of(root, error), program);
    return kUsage;
  } catch (const WrongValue& wrong) {
    report(usage_failure(wrong.what(), where_help_is(deepest(root))), program);
    return kUsage;
  } catch (const Failure& failure) {
    report(failure, program);
    return failure.code();
  } catch (const std::exception& error) {
    report(Failure(kOther, {error.what()}), program);
    return kOther;
  }
}

}  // namespace tranche::cli
