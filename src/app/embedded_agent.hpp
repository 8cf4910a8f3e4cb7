// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tranche up` brings this machine as its first node: an ordinary agent in a process of its own.
#include <filesystem>
#include <string>
#include <sys/types.h>

namespace tranche::app {

struct EmbeddedAgentOptions {
  std::filesystem::path data{};  // The agent's own folder.
  std::string server{};          // Where agents connect.
  std::string name{};
  std::string token{};  // Empty: it has joined before.
  std::string ca_pin{};
};

class EmbeddedAgent {
 public:
  explicit EmbeddedAgent(const EmbeddedAgentOptions& options);
  ~EmbeddedAgent();  // Ends it, and with it what it runs.
  EmbeddedAgent(const EmbeddedAgent&) = delete;
  EmbeddedAgent& operator=(const EmbeddedAgent&) = delete;

 private:
  pid_t pid_ = -1;
};

// This machine's name, as a node may be named.
[[nodiscard]] std::string local_node_name();
[[nodiscard]] bool has_joined(const std::filesystem::path& agent_data);

}  // namespace tranche::app
