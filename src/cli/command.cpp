// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>

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
const Option& Option::between(unsigned least, unsigned most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
const Option& Option::between(double least, double most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
const Option& Option::positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}
const Option& Option::not_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}
const Option& Option::one_of(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values));
  return *this;
}
const Option& Option::checked_by(std::function<std::string(const std::string&)> problem) const {
  option_->check(std::move(problem));
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
TRANCHE_OPTION_OF(std::filesystem::path)
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

void Command::gather(const std::string& heading, std::string_view names) const {
  std::istringstream words{std::string(names)};
  for (std::string name; words >> name;) {
    for (CLI::App* const command :
         app_->get_subcommands([&](CLI::App* one) { return one->get_name() == name; })) {
      command->group(heading);
    }
  }
}

void Command::hide() const {
  app_->group("");
}

std::size_t Command::count(const std::string& option) const {
  return app_->count(option);
}

bool Command::subcommand_given() const {
  return !app_->get_subcommands().empty();
}

Root::Root(const Text& text) : app_(std::make_unique<CLI::App>(text.about, text.name)) {
  app_->set_version_flag("--version", text.version);
  app_->require_subcommand(1);
  app_->fallthrough();  // Flags of every command may stand after it.
}
Root::~Root() = default;

namespace {

// Each line of `examples` behind `lead`.
std::string examples_after(std::string_view lead, std::string_view examples) {
  std::string out;
  for (std::size_t at = 0; at < examples.size();) {
    const std::size_t end = std::min(examples.find('\n', at), examples.size());
    out += std::string(lead).append(examples.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out;
}

Command add(const Command& parent, const CommandText& text, const std::string& footer) {
  CLI::App& above = parent;
  CLI::App* const command = above.add_subcommand(text.name, text.about);
  command->footer(footer);
  return *command;
}

Command wants_verb(const Command& group) {
  CLI::App& app = group;
  app.require_subcommand(1);
  return group;
}

}  // namespace

Command add_command(const Command& parent, const CommandText& text) {
  return add(
      parent,
      text,
      "\nExamples:\n" + examples_after("  $ ", text.examples) + "\nFlags of every command: tranche --help");
}

Command add_group(const Command& parent, const CommandText& text) {
  return wants_verb(add_command(parent, text));
}

Command add_local_command(const Command& parent, const CommandText& text) {
  std::string footer = "Example:\n" + examples_after("  ", text.examples);
  footer.pop_back();  // Help ends the line itself.
  return add(parent, text, footer);
}

Command add_local_group(const Command& parent, const CommandText& text) {
  return wants_verb(add_local_command(parent, text));
}

}  // namespace tranche::cli
