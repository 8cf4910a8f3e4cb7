// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a command is declared: its name, one line about it, and an example, always. Includes CLI11: for the
// .cpp files of command groups alone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>

#include "cli/failure.hpp"
#include "wire/fields.hpp"
#include "wire/nearest.hpp"

namespace tranche::cli {

struct CommandText {
  std::string name{};
  std::string about{};
  std::string examples{};  // One a line, without the prompt.
};
CLI::App& add_command(CLI::App& parent, const CommandText& text);
// A noun whose verbs follow: it does nothing by itself.
CLI::App& add_group(CLI::App& parent, const CommandText& text);

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
