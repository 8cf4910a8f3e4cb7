// SPDX-License-Identifier: Apache-2.0
// What a thousand connected nodes cost their server. Each has joined, with a certificate of its own, and
// holds a link as an agent does; its eight devices are SIMULATED, and it says a heartbeat with their readings
// each 5 s. The agents are links alone, in one process: what they cost is not counted.
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "agent/identity.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"
#include "gpu/port.hpp"
#include "net/websocket_client.hpp"
#include "wire/agent_message.hpp"
#include "wire/api_node.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kAgents = 1000;
constexpr auto kHeartbeat = 5s;
constexpr auto kToJoin = 90s;  // A busy machine gives fewer agents, not a longer wait.
constexpr auto kMeasured = 30s;

class LinkedNode {
 public:
  LinkedNode(Caller& root,
             const std::string& name,
             const std::string& script,
             std::atomic<std::int64_t>& answers)
      : port_(gpu::open_scripted(script, name)), answers_(answers) {
    const auto invite =
        wire::from_json<wire::NodeInvite>(root.ask("POST", "/v1/nodes", R"({"name":")" + name + "\"}"));
    if (!invite) throw std::runtime_error("no invitation came back");
    const agent::Identity identity =
        agent::join({.server = invite->address, .name = name, .token = invite->token, .pin = invite->ca_pin});
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](net::WebSocket&, const std::string& bytes) {
      const auto frame = wire::decode<wire::AgentFrame>(bytes);
      if (frame && frame->kind == wire::AgentMessageKind::kHeartbeatAnswer) ++answers_;
    };
    callbacks.on_close = [](std::uint16_t, const std::string&) {};
    net::WebSocketOptions options;
    options.kind = net::MessageKind::kBinary;
    options.idle_timeout = 60s;
    auto connected = net::WebSocketClient::connect(
        agent::client_options(identity), "/v1/agent/link", {}, std::move(callbacks), options);
    if (!connected) throw std::runtime_error(connected.error().message);
    link_ = std::move(*connected);
    wire::Hello hello{.software = "tranche-bench", .node = name, .boot_id = name};
    hello.cpus = 128;
    hello.memory = gibibytes(2048);
    hello.simulated = true;
    hello.devices = port_->discover();
    link_->send(wire::frame_bytes({}, hello));
  }
  bool beat() {
    wire::Heartbeat beat{.at = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now())};
    beat.cpu_milli = 250;
    beat.memory_used = gibibytes(512);
    beat.devices = port_->sample();
    return link_->send(wire::frame_bytes({}, beat));
  }

 private:
  std::unique_ptr<gpu::DevicePort> port_;
  std::atomic<std::int64_t>& answers_;
  std::unique_ptr<net::WebSocketClient> link_;
};

using Fleet = std::vector<std::unique_ptr<LinkedNode>>;

// Each in its turn, evenly over the time between two heartbeats.
void beat_for(Fleet& fleet, std::chrono::seconds length) {
  const auto step = std::chrono::duration_cast<Clock::duration>(kHeartbeat) / fleet.size();
  const auto end = Clock::now() + length;
  auto next = Clock::now();
  for (std::size_t turn = 0; next < end; ++turn, next += step) {
    std::this_thread::sleep_until(next);
    fleet[turn % fleet.size()]->beat();
  }
}

}  // namespace

std::vector<Row> fleet_link_rows() {
  if (!wanted("fleet")) return {};
  progress("fleet: " + std::to_string(kAgents) + " agents join");
  ServerProcess server(fresh_folder());
  server.start();
  Caller root(server.port(), server.token());
  const auto script = server.folder() / "fleet.yaml";
  std::ofstream(script) << "name: fleet\ndevices:\n  - {model: H100-SXM5-80GB, count: 8}\n";
  std::atomic<std::int64_t> answers = 0;
  Fleet fleet;
  for (const auto since = Clock::now(); fleet.size() < kAgents && Clock::now() - since < kToJoin;)
    fleet.push_back(std::make_unique<LinkedNode>(
        root, "sim-" + std::to_string(fleet.size() + 1), script.string(), answers));
  const auto joined = fleet.size();
  progress("fleet: " + std::to_string(joined) + " of them, a heartbeat each 5 s");
  beat_for(fleet, kHeartbeat);  // The first ones bring inventories in.
  const double before = server.cpu_seconds();
  const std::int64_t answered = answers;
  const auto began = Clock::now();
  beat_for(fleet, kMeasured);
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  const double busy = (server.cpu_seconds() - before) / took * 100;
  const auto heard = static_cast<double>(answers - answered);
  const double memory = [&] {
    std::size_t pages = 0, resident = 0;
    std::ifstream file("/proc/" + std::to_string(server.pid()) + "/statm");
    file >> pages >> resident;
    return static_cast<double>(resident) * 4096 / (1 << 20);
  }();
  fleet.clear();
  return {{.what = "server with " + std::to_string(joined) +
                   " connected agents of 8 devices each (SIMULATED), a heartbeat each 5 s",
           .value = busy * kAgents / static_cast<double>(joined),
           .unit = "% of a core",
           .goal = 10,
           .better = Better::kLower},
          {.what = "heartbeats answered of those sent then",
           .value = heard * 100 / (static_cast<double>(joined) * took / 5),
           .unit = "%"},
          {.what = "memory of that server", .value = memory, .unit = "MiB"}};
}

}  // namespace tranche::bench
