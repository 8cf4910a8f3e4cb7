// SPDX-License-Identifier: Apache-2.0
// What a node costs by itself: from a plan to a process running in the very sandbox that
// tests/sandbox_test.py attacks, and how many short jobs a second one node finishes.
#include <algorithm>
#include <cstdio>
#include <poll.h>
#include <unistd.h>
#include <vector>

#include "agent/files.hpp"
#include "agent/lease_folder.hpp"
#include "agent/sandbox_try.hpp"
#include "agent/spawner.hpp"
#include "agent/spool.hpp"
#include "bench/bench.hpp"

namespace tranche::bench {
namespace {

using namespace agent;

class Node {
 public:
  Node() : world_(make_shim_world("tranche-bench")), spawner_(world_) {
    rules_.data =
        std::filesystem::temp_directory_path() / ("tranche-agent-bench-" + std::to_string(::getpid()));
    rules_.uid_base = default_uid_base();
    std::filesystem::create_directories(rules_.data);
    make_folder(rules_.data / "leases", 0711);
    make_folder(rules_.data / "checkpoints", 0711);
    home_ = std::make_unique<SandboxHome>(rules_.data / "sandbox", "");
    notes_ = bind_datagrams(rules_.data.string(), kAgentSocket);
  }
  ~Node() { remove_tree(rules_.data); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  LeaseFolder start(std::uint64_t number, const char* run) {
    wire::LeaseGrant grant{.lease = {number}, .epoch = 1, .job = {number % 64 + 1}, .tenant = {8}};
    grant.spec.run = run;
    const std::uint32_t uid = job_user(rules_, grant);
    const std::filesystem::path checkpoints = checkpoint_folder(rules_, grant.job);
    make_folder(checkpoints, 0700);
    if (uid != 0 && ::chown(checkpoints.c_str(), uid, uid) != 0) throw std::runtime_error("cannot chown");
    LeaseFolder folder = LeaseFolder::create(rules_.data / "leases", grant, uid);
    const auto plan = plan_job(grant, folder.path(), rules_, *home_, {}, "");
    if (!plan) throw std::runtime_error(plan.error().message);
    spawner_.start(*plan);
    return folder;
  }
  // Until the lease's page says so; notes wake us, as they wake an agent.
  void wait(const LeaseFolder& folder, JobPhase phase) {
    while (static_cast<std::uint32_t>(phase_of(folder.page())) < static_cast<std::uint32_t>(phase)) drain();
  }
  void drain() {
    pollfd source{notes_.get(), POLLIN, 0};
    ::poll(&source, 1, 1000);
    ShimNote note;
    while (receive_datagram(notes_.get(), &note, sizeof note)) {}
  }

 private:
  ShimWorld world_;
  Spawner spawner_;
  NodeRules rules_;
  std::unique_ptr<SandboxHome> home_;
  Descriptor notes_;
};

double milliseconds(BootTime from, BootTime to) {
  return static_cast<double>(to - from) / 1e6;
}

constexpr double kPatience =
    20'000;  // Milliseconds; a busy machine gives fewer of a thing, not a longer wait.

void start_rows(Node& node, std::uint64_t& number, std::vector<Row>& rows) {
  progress("sandbox: starts, one by one");
  std::vector<double> starts;
  constexpr std::size_t kStarts = 200;
  const BootTime since = boot_time();
  while (starts.size() < kStarts && milliseconds(since, boot_time()) < kPatience) {
    const BootTime began = boot_time();
    LeaseFolder folder = node.start(number++, "exit 0");
    node.wait(folder, JobPhase::kRunning);
    starts.push_back(milliseconds(began, boot_time()));
    node.wait(folder, JobPhase::kEnded);
    folder.forget();
  }
  std::sort(starts.begin(), starts.end());
  const char* slurm =
      "Slurm on the same kind of machine: sbatch 850 / 1,724 ms; srun 42 ms for the round trip, no sandbox";
  rows.push_back({"grant at the node -> process running in its sandbox, p50",
                  starts[starts.size() / 2],
                  "ms",
                  25,
                  Better::kLower,
                  slurm,
                  PeerSource::kQuoted});
  rows.push_back({"grant at the node -> process running in its sandbox, p99",
                  starts[starts.size() * 99 / 100],
                  "ms",
                  100,
                  Better::kLower,
                  slurm,
                  PeerSource::kQuoted});
}

void short_job_rows(Node& node, std::uint64_t& number, std::vector<Row>& rows) {
  progress("sandbox: short jobs, 16 at once");
  constexpr std::size_t kJobs = 1000, kAtOnce = 16;
  std::vector<LeaseFolder> running;
  std::size_t ended = 0;
  const BootTime began = boot_time();
  std::size_t jobs = kJobs;
  for (std::size_t started = 0; ended < jobs;) {
    if (milliseconds(began, boot_time()) > kPatience) jobs = std::min(jobs, started);
    for (; started < jobs && running.size() < kAtOnce; ++started)
      running.push_back(node.start(number++, "exit 0"));
    node.drain();
    std::erase_if(running, [&](LeaseFolder& folder) {
      if (phase_of(folder.page()) != JobPhase::kEnded) return false;
      folder.forget();
      ++ended;
      return true;
    });
  }
  rows.push_back({"short sandboxed jobs finished on one node, 16 at once",
                  static_cast<double>(ended) * 1000 / milliseconds(began, boot_time()),
                  "jobs/s",
                  200,
                  Better::kHigher,
                  "Slurm 58/s, without a sandbox",
                  PeerSource::kQuoted});
}

void spool_rows(std::vector<Row>& rows) {
  Spool spool(std::filesystem::temp_directory_path() / ("tranche-spool-bench-" + std::to_string(::getpid())));
  constexpr std::uint64_t kReports = 50'000;
  progress("spool");
  const BootTime spooling = boot_time();
  std::uint64_t reports = 0;
  for (; reports < kReports && milliseconds(spooling, boot_time()) < kPatience; ++reports)
    spool.acknowledge(spool.add(wire::LeaseReport{.lease = {reports}, .state = wire::LeaseState::kRunning}));
  rows.push_back({"reports spooled and acknowledged",
                  static_cast<double>(reports) * 1000 / milliseconds(spooling, boot_time()),
                  "reports/s"});
}

std::vector<Row> run() {
  std::vector<Row> rows;
  if (wanted("sandbox")) {
    Node node;
    std::uint64_t number = 1;
    start_rows(node, number, rows);
    short_job_rows(node, number, rows);
    spool_rows(rows);
  }
  for (const auto part : {node_path_rows, device_start_rows, adoption_rows, fleet_link_rows, neighbour_rows})
    for (Row& row : part()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

Suite agent_suite() {
  return {"agent",
          "A node by itself, and the whole path to it: starts, short jobs, restarts, many agents, bad "
          "neighbours.",
          run};
}

}  // namespace tranche::bench
