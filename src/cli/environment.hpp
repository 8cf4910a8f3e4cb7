// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the process was started with: environment variables and the places of files they decide.
#include <filesystem>
#include <optional>
#include <string>

namespace tranche::cli {

struct Environment {
  std::string url{};                         // TRANCHE_URL
  std::string token{};                       // TRANCHE_TOKEN
  std::string subscriber{};                  // TRANCHE_SUBSCRIBER
  std::string output{};                      // TRANCHE_OUTPUT
  std::string context{};                     // TRANCHE_CONTEXT
  std::string no_color{};                    // NO_COLOR
  std::filesystem::path config_file{};       // TRANCHE_CONFIG, or $XDG_CONFIG_HOME/tranche/config.toml
  std::filesystem::path credentials_file{};  // $XDG_DATA_HOME/tranche/credentials.toml
};

Environment read_environment();
// Any other; nothing: there is none of that name.
std::optional<std::string> environment_variable(const std::string& name);

}  // namespace tranche::cli
