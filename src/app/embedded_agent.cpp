// SPDX-License-Identifier: Apache-2.0
#include "app/embedded_agent.hpp"

#include <array>
#include <cctype>
#include <csignal>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "agent/identity.hpp"
#include "base/text.hpp"

namespace tranche::app {

EmbeddedAgent::EmbeddedAgent(const EmbeddedAgentOptions& options) {
  std::vector<std::string> words{"tranche",
                                 "agent",
                                 "--server",
                                 options.server,
                                 "--name",
                                 options.name,
                                 "--data",
                                 options.data.string(),
                                 "--drain-on-exit"};
  if (!options.token.empty())
    words.insert(words.end(), {"--token", options.token, "--ca-pin", options.ca_pin});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("the agent of this machine could not be started");
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGHUP);  // A server that was killed is started again, and its jobs go on.
  if (::getppid() != parent) ::_exit(1);
  sigset_t none{};
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setpgid(0, 0);  // Ctrl-C reaches the server, which ends the agent in order.
  ::execv("/proc/self/exe", arguments.data());
  ::_exit(127);
}

EmbeddedAgent::~EmbeddedAgent() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  constexpr int kLooks = 900, kEachMilliseconds = 50;  // Jobs have thirty seconds to end, and wipes five.
  for (int look = 0; look < kLooks; ++look) {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
    ::poll(nullptr, 0, kEachMilliseconds);
  }
  ::kill(pid_, SIGKILL);  // What it leaves ends with its leases.
  ::waitpid(pid_, nullptr, 0);
}

std::string local_node_name() {
  std::array<char, 64> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "local";
  std::string name;
  for (const char* c = host.data(); *c != '\0'; ++c) {
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9') || lower == '-') name += lower;
  }
  while (name.starts_with('-')) name.erase(0, 1);
  return name.empty() || name.starts_with("sim-") ? "local" : name;
}

bool has_joined(const std::filesystem::path& agent_data) {
  return std::filesystem::exists(agent_data / "node.pem");
}

void renew_if_run_out(const std::filesystem::path& agent_data,
                      const net::CertificateAuthority& authority,
                      std::chrono::seconds life) {
  std::optional<agent::Identity> identity = agent::load_identity(agent_data);
  const auto now = std::chrono::system_clock::now();
  if (!identity || !agent::has_run_out(*identity, now)) return;
  const net::Identity fresh = authority.issue_client(text(identity->node), net::Validity::lasting(life));
  identity->certificate_pem = fresh.certificate_pem;
  identity->key_pem = fresh.key_pem;
  identity->since = std::chrono::system_clock::to_time_t(now);
  agent::save_identity(agent_data, *identity);
}

}  // namespace tranche::app
