// SPDX-License-Identifier: Apache-2.0
#include "cli/environment.hpp"

#include <cstdlib>

namespace tranche::cli {
namespace {

std::string variable(const char* name) {
  return environment_variable(name).value_or("");
}

// XDG says: a relative path in these variables is to be ignored.
std::filesystem::path folder(const char* name, const char* below_home) {
  const std::filesystem::path given = variable(name);
  if (given.is_absolute()) return given;
  return std::filesystem::path(variable("HOME")) / below_home;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* const value =
      std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): read before any thread starts.
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Environment read_environment() {
  Environment environment{
      .url = variable("TRANCHE_URL"),
      .token = variable("TRANCHE_TOKEN"),
      .subscriber = variable("TRANCHE_SUBSCRIBER"),
      .output = variable("TRANCHE_OUTPUT"),
      .context = variable("TRANCHE_CONTEXT"),
      .no_color = variable("NO_COLOR"),
      .config_file = variable("TRANCHE_CONFIG"),
      .credentials_file = folder("XDG_DATA_HOME", ".local/share") / "tranche" / "credentials.toml"};
  if (environment.config_file.empty()) {
    environment.config_file = folder("XDG_CONFIG_HOME", ".config") / "tranche" / "config.toml";
  }
  return environment;
}

}  // namespace tranche::cli
