// SPDX-License-Identifier: Apache-2.0
#pragma once
// A whole platform on this machine, as `tranche up` starts it, with tenants whose users submit over HTTP: the
// path that a user takes.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/server_process.hpp"
#include "net/client.hpp"
#include "wire/api_job.hpp"
#include "wire/service.hpp"

namespace tranche::bench {

class Caller {  // Somebody with a token.
 public:
  Caller(std::uint16_t port, std::string token)
      : port_(port), client_({.port = port, .tls = std::nullopt}), token_(std::move(token)) {}

  // The body of a 2xx answer; throws std::runtime_error with any other.
  std::string ask(std::string_view method, std::string_view path, std::string_view body = {});
  template <class Answer>
  Answer get(std::string_view path) {
    auto answer = wire::from_json<Answer>(ask("GET", path));
    if (!answer) throw std::runtime_error("the answer could not be read: " + std::string(path));
    return std::move(*answer);
  }
  JobId submit(std::string_view job);
  wire::JobDetail job(JobId id);
  void stop(JobId id);  // One that is over is left as it is.
  // Both throw std::runtime_error when it takes longer than any row here may.
  void until_started(JobId id, std::chrono::milliseconds look = std::chrono::milliseconds(5));
  wire::JobDetail until_over(JobId id, std::chrono::milliseconds look = std::chrono::milliseconds(5));
  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] Caller again() const { return {port_, token_}; }  // For another thread.

 private:
  std::uint16_t port_;
  net::Client client_;
  std::string token_;
};

// Whether the agent is a process of the server's own (`tranche up`), or one that joined as on another
// machine.
enum class AgentKind { kOfServer, kJoined };

class Site {
 public:
  explicit Site(AgentKind kind = AgentKind::kOfServer);  // Until this machine is ready to run jobs.
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  Caller user(const std::string& tenant, const std::string& name);  // Makes both where they are missing.
  [[nodiscard]] Caller& root() { return *root_; }
  // A command as the operator types it.
  [[nodiscard]] Finished run(const std::vector<std::string>& words) const { return server_.run(words); }
  // All of it, at another port, on the same data; of a site whose agent joined: the agent alone.
  void kill_and_start();
  [[nodiscard]] Caller again(const Caller& before) const { return {server_.port(), before.token()}; }

 private:
  void wait_until_ready();
  void start_agent(std::vector<std::string> more);
  AgentKind kind_;
  ServerProcess server_;
  pid_t agent_ = 0;
  std::unique_ptr<Caller> root_;
};

}  // namespace tranche::bench
