// SPDX-License-Identifier: Apache-2.0
#pragma once
// `tranche up` brings this machine as its first node: an ordinary agent in a process of its own.
#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>

#include "net/certificate_authority.hpp"

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
// One that was off for longer than its certificate lasts gets another: nobody but this machine's server could
// give it one, and that is being started here.
void renew_if_run_out(const std::filesystem::path& agent_data,
                      const net::CertificateAuthority& authority,
                      std::chrono::seconds life);

}  // namespace tranche::app
