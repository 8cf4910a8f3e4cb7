// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

namespace tranche::cli {

const Option& Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}
const Option& Option::required() const {
  option_->required();
  return *this;
}
const Option& Option::repeatable() const {
  option_->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}
const Option& Option::expected(int least, int most) const {
  option_->expected(least, most);
  // A value that may be missing stands behind '=': else the words of a command, or the -- before them, would
  // be taken for it.
  if (least == 0) option_->type_size(0)->allow_extra_args(false);
  return *this;
}
const Option& Option::between(int least, int most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
const Option& Option::capture_default_str() const {
  option_->capture_default_str();
  return *this;
}
const Option& Option::needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}
const Option& Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

template <class Value>
Option Command::add_option(const std::string& name, Value& value, const std::string& about) const {
  return Option(app_->add_option(name, value, about));
}
#define TRANCHE_OPTION_OF(Value) \
  template Option Command::add_option<Value>(const std::string&, Value&, const std::string&) const;
TRANCHE_OPTION_OF(std::string)
TRANCHE_OPTION_OF(std::vector<std::string>)
TRANCHE_OPTION_OF(std::optional<std::string>)
TRANCHE_OPTION_OF(std::uint64_t)
TRANCHE_OPTION_OF(std::uint32_t)
TRANCHE_OPTION_OF(std::uint16_t)
TRANCHE_OPTION_OF(std::int64_t)
TRANCHE_OPTION_OF(int)
TRANCHE_OPTION_OF(double)
TRANCHE_OPTION_OF(std::optional<std::uint64_t>)
TRANCHE_OPTION_OF(std::optional<std::uint32_t>)
TRANCHE_OPTION_OF(std::optional<std::int64_t>)
TRANCHE_OPTION_OF(std::optional<int>)
#undef TRANCHE_OPTION_OF

Option Command::add_flag(const std::string& name, bool& value, const std::string& about) const {
  return Option(app_->add_flag(name, value, about));
}

void Command::callback(std::function<void()> run) const {
  app_->callback(std::move(run));
}

void Command::also(const std::string& name) const {
  app_->alias(name);
}

std::size_t Command::count(const std::string& option) const {
  return app_->count(option);
}

bool Command::subcommand_given() const {
  return !app_->get_subcommands().empty();
}

Command add_command(const Command& parent, const CommandText& text) {
  CLI::App& above = parent;
  CLI::App* const command = above.add_subcommand(text.name, text.about);
  std::string footer = "\nExamples:\n";
  std::size_t at = 0;
  while (at < text.examples.size()) {
    const std::size_t end = std::min(text.examples.find('\n', at), text.examples.size());
    footer += "  $ " + text.examples.substr(at, end - at) + "\n";
    at = end + 1;
  }
  command->footer(footer + "\nFlags of every command: tranche --help");
  return *command;
}

Command add_group(const Command& parent, const CommandText& text) {
  const Command group = add_command(parent, text);
  CLI::App& app = group;
  app.require_subcommand(1);
  return group;
}

}  // namespace tranche::cli
