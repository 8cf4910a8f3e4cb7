// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a command is declared: its name, one line about it, an example, its options. Stands before CLI11, whose
// headers take longer to compile than most commands: only command.cpp and what walks the tree read them.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/failure.hpp"
#include "wire/fields.hpp"
#include "wire/nearest.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tranche::cli {

// One option of a command while it is declared. A handle: copies mean the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  const Option& type_name(const std::string& name) const;
  const Option& required() const;
  const Option& repeatable() const;  // One value each time it is given.
  const Option& expected(int least, int most) const;
  const Option& between(int least, int most) const;
  const Option& between(unsigned least, unsigned most) const;
  const Option& between(double least, double most) const;
  const Option& positive() const;
  const Option& not_negative() const;
  const Option& one_of(const std::vector<std::string>& values) const;
  // What is wrong with a value, in words; nothing: it is taken.
  const Option& checked_by(std::function<std::string(const std::string&)> problem) const;
  const Option& capture_default_str() const;
  const Option& needs(const Option& other) const;
  const Option& excludes(const Option& other) const;

 private:
  CLI::Option* option_;
};

// A command while it is declared. A handle: copies mean the same command.
class Command {
 public:
  Command(CLI::App& app)
      : app_(&app) {}  // NOLINT(google-explicit-constructor): the same thing by another name.
  operator CLI::App&() const { return *app_; }  // NOLINT(google-explicit-constructor)

  // For the kinds of value that command.cpp knows: text, a path, a list of texts, a number, an optional one.
  template <class Value>
  Option add_option(const std::string& name, Value& value, const std::string& about) const;
  Option add_flag(const std::string& name, bool& value, const std::string& about) const;
  void callback(std::function<void()> run) const;
  void also(const std::string& name) const;  // Another name for it.
  // Lists those of its subcommands that `names` has, with a space between them, under a heading.
  void gather(const std::string& heading, std::string_view names) const;
  void hide() const;                                                 // Nobody types it: not in the list.
  [[nodiscard]] std::size_t count(const std::string& option) const;  // How often it was given.
  [[nodiscard]] bool subcommand_given() const;

 private:
  CLI::App* app_;
};

// The program itself, below which every command stands.
class Root {
 public:
  struct Text {
    std::string name{};
    std::string about{};
    std::string version{};
  };
  explicit Root(const Text& text);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  operator Command() const { return *app_; }  // NOLINT(google-explicit-constructor)

 private:
  std::unique_ptr<CLI::App> app_;
};

struct CommandText {
  std::string name{};
  std::string about{};
  std::string examples{};  // One a line, without the prompt.
};
Command add_command(const Command& parent, const CommandText& text);
// A noun whose verbs follow: it does nothing by itself.
Command add_group(const Command& parent, const CommandText& text);
// The same for what works on this machine: its help does not lead to the flags of every command, most of
// which are about a server.
Command add_local_command(const Command& parent, const CommandText& text);
Command add_local_group(const Command& parent, const CommandText& text);

// The value of an option that names an enumerator: any case, '-' for '_'. A usage failure names the nearest.
template <wire::DescribedEnum E>
E enum_value(std::string_view option, std::string_view given) {
  std::string name(given);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c == '-' ? '_' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  });
  if (const auto value = wire::from_name<E>(name)) return *value;
  using Names = wire::detail::EnumTable<E>;
  std::string list;
  std::vector<std::string_view> known;
  for (const auto& entry : Names::kNames) {
    if (!list.empty()) list += ", ";
    list += entry.view();
    known.push_back(entry.view());
  }
  const std::string hint = wire::nearest_hint(name, known);
  throw usage_failure(std::string(option) + " takes one of " + list + ", not '" + std::string(given) + "'",
                      hint);
}

}  // namespace tranche::cli
