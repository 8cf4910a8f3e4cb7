// SPDX-License-Identifier: Apache-2.0
#include "bench/site.hpp"

#include <algorithm>
#include <csignal>
#include <thread>

#include "base/text.hpp"
#include "wire/api_node.hpp"
#include "wire/api_party.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

}  // namespace

std::string Caller::ask(std::string_view method, std::string_view path, std::string_view body) {
  const net::HeaderList headers{{"Authorization", "Bearer " + token_}, {"Content-Type", "application/json"}};
  auto answer = client_.request(method, path, headers, body);
  if (!answer) throw std::runtime_error(answer.error().message);
  if (answer->status / 100 != 2)
    throw std::runtime_error(std::string(path) + " answered " + std::to_string(answer->status) + ": " +
                             answer->body);
  return std::move(answer->body);
}

JobId Caller::submit(std::string_view job) {
  const auto made = wire::from_json<wire::JobView>(ask("POST", "/v1/jobs", job));
  if (!made) throw std::runtime_error("no job came back");
  return made->id;
}

wire::JobDetail Caller::job(JobId id) {
  return get<wire::JobDetail>("/v1/jobs/" + text(id));
}

void Caller::stop(JobId id) {
  try {
    ask("POST", "/v1/jobs/" + text(id) + "/stop");
  } catch (const std::runtime_error&) {
    if (!wire::is_over(job(id).job.state)) throw;
  }
}

void Caller::until_started(JobId id, std::chrono::milliseconds look) {
  constexpr auto kMost = 60s;
  const auto patience = std::chrono::steady_clock::now() + kMost;
  for (;;) {
    const wire::JobDetail detail = job(id);
    if (detail.job.started) return;
    if (wire::is_over(detail.job.state))
      throw std::runtime_error(text(id) + " ended before it ran: " + detail.message);
    if (std::chrono::steady_clock::now() > patience)
      throw std::runtime_error(text(id) + " did not start within " + std::to_string(kMost.count()) + " s");
    std::this_thread::sleep_for(look);
  }
}

wire::JobDetail Caller::until_over(JobId id, std::chrono::milliseconds look) {
  constexpr auto kMost = 240s;
  const auto patience = std::chrono::steady_clock::now() + kMost;
  for (;;) {
    wire::JobDetail detail = job(id);
    if (wire::is_over(detail.job.state)) return detail;
    if (std::chrono::steady_clock::now() > patience)
      throw std::runtime_error(text(id) + " did not end within " + std::to_string(kMost.count()) + " s");
    std::this_thread::sleep_for(look);
  }
}

Site::Site(AgentKind kind)
    : kind_(kind), server_(fresh_folder(), kind == AgentKind::kOfServer ? "up" : "server") {
  server_.start();
  root_ = std::make_unique<Caller>(server_.port(), server_.token());
  if (kind == AgentKind::kJoined) {
    const auto invite =
        wire::from_json<wire::NodeInvite>(root_->ask("POST", "/v1/nodes", R"({"name":"bench"})"));
    if (!invite) throw std::runtime_error("no invitation came back");
    start_agent({"--server", invite->address, "--token", invite->token, "--ca-pin", invite->ca_pin});
  }
  wait_until_ready();
}

Site::~Site() {
  end_process(agent_, SIGTERM);
}

void Site::start_agent(std::vector<std::string> more) {
  std::vector<std::string> words{
      "agent", "--name", "bench", "--data", (server_.folder() / "agent").string(), "--drain-on-exit"};
  words.insert(words.end(), more.begin(), more.end());
  agent_ = start_tranche(std::move(words), server_.folder() / "agent.log");
}

void Site::kill_and_start() {
  if (kind_ == AgentKind::kJoined) {
    end_process(agent_, SIGKILL);
    return start_agent({});
  }
  server_.kill();
  server_.start();
  root_ = std::make_unique<Caller>(server_.port(), server_.token());
}

void Site::wait_until_ready() {
  for (int i = 0; i < 1200; ++i) {  // Devices are tested before their first use.
    const auto nodes = root_->get<wire::NodeList>("/v1/nodes");
    const bool ready = std::any_of(nodes.items.begin(), nodes.items.end(), [](const wire::NodeView& node) {
      return node.state == wire::NodeCondition::kReady && node.connected &&
             std::all_of(node.devices.begin(), node.devices.end(), [](const wire::DeviceView& device) {
               return device.state == wire::DeviceState::kHealthy;
             });
    });
    if (ready) return;
    std::this_thread::sleep_for(100ms);
  }
  throw std::runtime_error("this machine did not become ready to run jobs");
}

Caller Site::user(const std::string& tenant, const std::string& name) {
  const auto ids = root_->ask("GET", "/v1/tenants");
  if (ids.find("\"name\":\"" + tenant + "\"") == std::string::npos)
    root_->ask("POST", "/v1/tenants", R"({"name":")" + tenant + "\"}");
  root_->ask("POST", "/v1/users", R"({"name":")" + name + R"(","parent":")" + tenant + "\"}");
  const auto issued = wire::from_json<wire::IssuedToken>(
      root_->ask("POST", "/v1/tokens", R"({"party":")" + tenant + "/" + name + "\"}"));
  if (!issued) throw std::runtime_error("no token came back");
  return {server_.port(), issued->secret};
}

}  // namespace tranche::bench
