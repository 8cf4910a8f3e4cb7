// SPDX-License-Identifier: Apache-2.0
#pragma once
// A node as tests need it: whole agents with real sandboxes, one after the other in the same folder.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "agent/agent.hpp"
#include "agent/cgroup_files.hpp"
#include "agent/files.hpp"
#include "agent/sandbox_try.hpp"
#include "agent/test_server.hpp"

namespace tranche::agent {

class OneDevice final : public gpu::DevicePort {
 public:
  [[nodiscard]] std::string name() const override { return "test"; }
  [[nodiscard]] std::vector<wire::DeviceFacts> discover() override {
    return {{.uuid = "GPU-test", .name = "a device that does nothing", .vram = gibibytes(4)}};
  }
  [[nodiscard]] std::vector<wire::DeviceSample> sample() override { return {}; }
  [[nodiscard]] std::vector<gpu::DeviceProcess> processes() override { return {}; }
  [[nodiscard]] std::vector<wire::HealthSignal> signals() override { return {}; }
  [[nodiscard]] std::vector<std::string> files_of(const std::string&) override { return {}; }
  Result<gpu::Partition, std::string> create_partition(const std::string&,
                                                       const std::string&,
                                                       std::uint8_t) override {
    return refuse(std::string("no"));
  }
  Result<void, std::string> destroy_partition(const std::string&) override { return {}; }
  Result<void, std::string> set_mode(const std::string&, wire::DeviceMode) override { return {}; }
  Result<void, std::string> reset(const std::string&) override { return {}; }
};

// A node: its folder and spawner stay while agents come and go.
struct Node {
  std::filesystem::path data =
      std::filesystem::temp_directory_path() / ("tranche-agent-test-" + std::to_string(::getpid()));
  ShimWorld world;
  Spawner spawner{world};  // Forks: before the server below has threads.
  TestServer server;
  bool simulated = false;
  std::function<std::unique_ptr<Scrubber>()> scrubber = [] { return nullptr; };
  std::function<std::unique_ptr<gpu::DevicePort>()> port = [] { return std::make_unique<OneDevice>(); };
  std::function<void(AgentOptions&)> change = [](AgentOptions&) {};
  std::unique_ptr<Agent> agent;
  std::thread thread;

  explicit Node(ShimWorld given = make_shim_world("tranche-test")) : world(std::move(given)) {
    remove_tree(data);
  }
  ~Node() {
    stop();
    remove_tree(data);
  }
  void start() {
    AgentOptions options;
    options.rules.data = data;
    options.rules.uid_base = default_uid_base();
    options.simulated = simulated;
    change(options);
    std::vector<std::unique_ptr<gpu::DevicePort>> ports;
    ports.push_back(port());
    agent = std::make_unique<Agent>(std::move(options),
                                    server.node(simulated ? "sim-1" : "node-1"),
                                    std::move(ports),
                                    simulated ? nullptr : &spawner,
                                    simulated ? nullptr : &world,
                                    scrubber());
    thread = std::thread([this] { agent->run(); });
    server.wait_for<wire::Heartbeat>([](const auto&) { return true; });
  }
  void stop() {
    if (!agent) return;
    agent->stop();
    thread.join();
    agent.reset();
    server.forget();
  }
  static wire::LeaseGrant grant(std::uint64_t lease, const std::string& run, std::uint64_t epoch = 1) {
    wire::LeaseGrant grant{
        .lease = {lease}, .epoch = epoch, .job = {lease}, .expires_in = std::chrono::hours(1)};
    grant.spec.run = run;
    return grant;
  }
};

// Not there, or there only until somebody collects its exit status.
inline bool gone(int pid) {
  const std::string stat = get_control("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z") != std::string::npos;
}

}  // namespace tranche::agent
