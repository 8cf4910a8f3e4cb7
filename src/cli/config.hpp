// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which servers a person knows, and the secrets for them. Secrets live in a file of their own, mode 0600.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace tranche::cli {

struct Context {
  std::string server{};      // https://tranche.example.org:7878
  std::string subscriber{};  // Used where a command needs a party and none is given.
  std::string ca_file{};     // The authority of the server; empty: those of the system.
  bool operator==(const Context&) const = default;
};

struct Config {
  std::string current{};
  std::map<std::string, Context> contexts{};
  bool operator==(const Config&) const = default;
};

struct Credential {
  std::string token{};
  std::string token_id{};  // Set when a password login issued it: logging out revokes it.
  bool operator==(const Credential&) const = default;
};
using Credentials = std::map<std::string, Credential>;  // By name of the context.

// A file that is not there reads as empty; one that makes no sense is a Failure that names file and line.
Config load_config(const std::filesystem::path& file);
Credentials load_credentials(const std::filesystem::path& file);
void save_config(const std::filesystem::path& file, const Config& config);
void save_credentials(const std::filesystem::path& file, const Credentials& credentials);

// Where a command goes: flag before environment before context before the usual place.
struct Target {
  std::string context{};  // Empty: the server is in no context.
  std::string server{};
  std::string token{};  // Empty: none known for this very server.
  std::string subscriber{};
  std::string ca_file{};
};
struct TargetWish {
  std::string server_flag{}, server_environment{};
  std::string token_environment{};
  std::string context_flag{}, context_environment{};
  std::string subscriber_flag{}, subscriber_environment{};
};
constexpr std::string_view kDefaultServer = "http://127.0.0.1:7878";
Target choose_target(const TargetWish& wish, const Config& config, const Credentials& credentials);

}  // namespace tranche::cli
