// SPDX-License-Identifier: Apache-2.0
// From a fault on a device to everybody who must know, by the path a user takes: a server, agents whose
// devices are SIMULATED and fail at times that a script says, jobs submitted over HTTP, and the live events
// of the operator and of the tenant. Every time is counted from the fault itself to the arrival of the event.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"
#include "wire/api_node.hpp"
#include "wire/api_party.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Wall = std::chrono::system_clock;

constexpr int kFaults = 40;
constexpr auto kFirstFault = 25s;  // By then the jobs run.
constexpr auto kBetween = 700ms;
constexpr auto kPatience = 60s;

Instant now() {
  return std::chrono::time_point_cast<Duration>(Wall::now());
}

// The text of a field in the JSON of an event: `"name":"text"`, the first after `from`.
std::string field(const std::string& json, const std::string& name, std::size_t from = 0) {
  const std::string key = "\"" + name + "\":\"";
  const auto at = json.find(key, from);
  if (at == std::string::npos) return {};
  const auto begin = at + key.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

class AgentProcess {
 public:
  AgentProcess(Caller& root,
               const std::filesystem::path& folder,
               const std::string& name,
               std::string script) {
    const auto invite =
        wire::from_json<wire::NodeInvite>(root.ask("POST", "/v1/nodes", R"({"name":")" + name + "\"}"));
    if (!invite) throw std::runtime_error("no invitation came back");
    const auto file = folder / (name + ".yaml");
    std::ofstream(file) << script;
    const std::vector<std::string> words{"tranche",
                                         "agent",
                                         "--server",
                                         invite->address,
                                         "--name",
                                         name,
                                         "--data",
                                         (folder / name).string(),
                                         "--token",
                                         invite->token,
                                         "--ca-pin",
                                         invite->ca_pin,
                                         "--simulated",
                                         file.string()};
    pid_ = ::fork();
    if (pid_ == 0) {
      const int log = ::open((folder / (name + ".log")).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(log, 1);
      ::dup2(log, 2);
      std::vector<char*> arguments;
      for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      ::execv(ServerProcess::binary().c_str(), arguments.data());
      ::_exit(127);
    }
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  ~AgentProcess() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

// What somebody is told, with the time at which it arrived.
class Feed {
 public:
  struct Told {
    Instant at{};
    wire::LiveEvent event{};
  };
  Feed(std::uint16_t port, const std::string& token) : client_({.port = port, .tls = std::nullopt}) {
    thread_ = std::thread([this, token] {
      static_cast<void>(
          client_.stream("/v1/events?from=0",
                         {{"Authorization", "Bearer " + token}, {"Accept", "text/event-stream"}},
                         [this](const net::ServerEvent& received) { return take(received); }));
    });
  }
  ~Feed() { thread_.join(); }  // When the server has ended.
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  [[nodiscard]] std::vector<Told> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  bool take(const net::ServerEvent& received) {
    auto event = wire::from_json<wire::LiveEvent>(received.data);
    if (!event) return true;
    const std::lock_guard lock(mutex_);
    told_.push_back({now(), std::move(*event)});
    return true;
  }
  net::Client client_;
  mutable std::mutex mutex_;
  std::vector<Told> told_;
  std::thread thread_;
};

struct Latencies {
  std::vector<double> closed{};  // Nobody new is placed there.
  std::vector<double> told{};
  std::vector<double> running{};  // Again, on another device.
};

Latencies measured(const std::vector<Feed::Told>& operators, const std::vector<Feed::Told>& tenants) {
  std::map<std::string, Instant> faults;                 // By device.
  std::map<std::string, std::string> device_of, job_of;  // By lease.
  std::map<std::string, std::string> hit;                // Job, and the device that failed under it.
  std::map<std::string, std::string> next_lease;         // Of a job that was hit.
  Latencies out;
  const auto seconds = [](Instant from, Instant to) {
    return std::chrono::duration<double>(to - from).count();
  };
  std::set<std::string> closed;
  for (const auto& [at, event] : operators) {
    const std::string& data = event.data.text;
    if (event.type == "health_signalled") {
      if (const auto when = parse_instant(field(data, "at"))) faults.emplace(field(data, "device"), *when);
    } else if (event.type == "device_state_changed" && field(data, "after") == "draining") {
      const std::string device = field(data, "id");
      if (faults.contains(device) && closed.insert(device).second)
        out.closed.push_back(seconds(faults.at(device), at));
    }
  }
  for (const auto& [at, event] : tenants) {
    const std::string& data = event.data.text;
    if (event.type == "lease_granted") {
      const std::string lease = field(data, "id"), job = field(data, "job");
      device_of[lease] = field(data, "device");
      job_of[lease] = job;
      if (hit.contains(job)) next_lease.emplace(job, lease);
    } else if (event.type == "lease_revoked") {
      const std::string lease = field(data, "id");
      const auto fault = faults.find(device_of[lease]);
      if (fault == faults.end() || !hit.emplace(job_of[lease], fault->first).second) continue;
      out.told.push_back(seconds(fault->second, at));
    } else if (event.type == "lease_reported" && field(data, "state") == "running") {
      const std::string lease = field(data, "lease"), job = job_of[lease];
      const auto next = next_lease.find(job);
      if (next == next_lease.end() || next->second != lease || device_of[lease] == hit[job]) continue;
      out.running.push_back(seconds(faults.at(hit[job]), at));
      next->second.clear();
    }
  }
  return out;
}

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(static_cast<double>(values.size()) * percent / 100))];
}

Caller member_of_acme(Caller& root, std::uint16_t port) {
  root.ask("POST", "/v1/tenants", R"({"name":"acme"})");
  root.ask("POST", "/v1/users", R"({"name":"ana","parent":"acme"})");
  const auto issued =
      wire::from_json<wire::IssuedToken>(root.ask("POST", "/v1/tokens", R"({"party":"acme/ana"})"));
  if (!issued) throw std::runtime_error("no token came back");
  return {port, issued->secret};
}

std::string failing_devices() {
  std::string script =
      "devices:\n  - model: H100-SXM5-80GB\n    count: " + std::to_string(kFaults) + "\nevents:\n";
  for (int i = 0; i < kFaults; ++i) {
    const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(kFirstFault + i * kBetween);
    script += "  - {at: " + std::to_string(at.count()) + "ms, device: " + std::to_string(i) +
              ", source: xid, code: 48, text: planted}\n";
  }
  return script;
}

void wait_for_devices(Caller& root, const std::string& name, std::size_t count) {
  for (int i = 0; i < 600; ++i) {
    for (const wire::NodeView& node : root.get<wire::NodeList>("/v1/nodes").items)
      if (node.name == name && node.connected && node.devices.size() == count) return;
    std::this_thread::sleep_for(50ms);
  }
  throw std::runtime_error(name + " did not join");
}

}  // namespace

std::vector<Row> health_path_rows() {
  progress("path: " + std::to_string(kFaults) + " faults under running jobs on SIMULATED devices, a minute");
  ServerProcess server(fresh_folder());
  server.start();
  Caller root(server.port(), server.token());
  Caller user = member_of_acme(root, server.port());
  Latencies all;
  {
    Feed operators(server.port(), server.token());
    Feed tenants(server.port(), user.token());
    {
      AgentProcess failing(root, server.folder(), "sim-failing", failing_devices());
      wait_for_devices(root, "sim-failing", kFaults);
      for (int i = 0; i < kFaults; ++i)
        user.submit(R"({"run":"true","resources":{"gpus":"H100"},"infra":"simulated",)"
                    R"("labels":{"sim.duration":"30m"},"checkpoint":{"every":"10m"}})");
      AgentProcess spare(
          root, server.folder(), "sim-spare", "devices:\n  - model: H100-SXM5-80GB\n    count: 48\n");
      const auto until = Wall::now() + kFirstFault + kFaults * kBetween + kPatience;
      while (all.running.size() < kFaults && Wall::now() < until) {
        std::this_thread::sleep_for(200ms);
        all = measured(operators.told(), tenants.told());
      }
    }
    server.stop();
  }
  const std::string of = " (SIMULATED devices, " + std::to_string(all.running.size()) + " of " +
                         std::to_string(kFaults) + " faults under a running job)";
  const auto row = [&](const std::string& what, double value, double goal) {
    return Row{.what = what + of, .value = value, .unit = "s", .goal = goal, .better = Better::kLower};
  };
  return {row("fault -> no new placement on the device, p99", percentile(all.closed, 99), 2),
          row("fault -> its tenant is told by the event feed, p99", percentile(all.told, 99), 5),
          row("fault -> its job runs again elsewhere, p50", percentile(all.running, 50), 5),
          row("their p99", percentile(all.running, 99), 15),
          {.what = "jobs that ran again elsewhere, of " + std::to_string(kFaults),
           .value = static_cast<double>(all.running.size()),
           .unit = "jobs",
           .goal = kFaults}};
}

}  // namespace tranche::bench
