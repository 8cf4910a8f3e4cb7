// SPDX-License-Identifier: Apache-2.0
#include "sim/replay_queue.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "base/random.hpp"

using namespace tranche::sim;  // NOLINT(google-build-using-namespace): a test reads better so.

namespace {

const std::filesystem::path kShared = std::filesystem::path(TRANCHE_SOURCE_DIR) / "../shared";

std::string output_of(const std::string& command) {
  std::array<char, 4096> piece{};
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  while (std::fgets(piece.data(), static_cast<int>(piece.size()), pipe) != nullptr) text += piece.data();
  pclose(pipe);
  return text;
}

// A trace with bursts, gangs over several nodes and jobs that no pool of its own can hold.
ReplayTrace random_trace(std::uint64_t seed) {
  tranche::Random random(seed);
  ReplayTrace trace;
  for (int i = 0; i < 4; ++i) {
    trace.pools.push_back({"p" + std::to_string(i), 1 + static_cast<std::int32_t>(random.below(4))});
  }
  Seconds now = 0;
  for (int i = 0; i < 1500; ++i) {
    now += static_cast<Seconds>(random.below(5) == 0 ? random.below(900) : random.below(20));
    const std::int32_t sizes[] = {1, 1, 1, 1, 1, 2, 3, 4, 8, 12, 16, 40};
    trace.jobs.push_back({now,
                          static_cast<Seconds>(1 + random.below(10) * random.below(1000)),
                          sizes[random.below(std::size(sizes))],
                          static_cast<GroupIndex>(random.below(trace.pools.size()))});
  }
  return trace;
}

void write_trace(const ReplayTrace& trace, const std::filesystem::path& folder) {
  std::ofstream pools(folder / "pools.csv"), jobs(folder / "jobs.csv");
  pools << "vc,nodes\n";
  for (const TracePool& pool : trace.pools) pools << pool.name << ',' << pool.nodes << '\n';
  jobs << "submit,duration,gpus,vc\n";
  for (const TraceJob& job : trace.jobs) {
    jobs << job.submit << ',' << job.duration << ',' << job.gpus << ','
         << trace.pools[static_cast<std::size_t>(job.pool)].name << '\n';
  }
}

// The oracle's own line, rebuilt from our report.
std::string line_of(const ReplayTrace& trace, QueueRule rule, Walls walls) {
  QueueOptions options;
  options.rule = rule;
  options.walls = walls;
  options.durations = Durations::kTrue;
  const ReplayReport report = summarise(trace, replay_queue(trace, options));
  char text[200];
  std::snprintf(text,
                sizeof text,
                "%s,%s,%d,%lld,%lld,%.0f,%.0f,%lld,%lld,%lld",
                rule == QueueRule::kEasy ? "easy" : "fifo",
                walls == Walls::kNone ? "shared" : "vc",
                report.gpus,
                static_cast<long long>(report.jobs),
                static_cast<long long>(report.never_able_to_run),
                report.mean_completion_seconds,
                report.mean_wait_seconds,
                static_cast<long long>(report.p50_wait_seconds),
                static_cast<long long>(report.p95_wait_seconds),
                static_cast<long long>(report.p99_wait_seconds));
  return text;
}

}  // namespace

TEST_CASE("replay queue: walls and pool agree with the reference simulator, figure by figure") {
  if (!std::filesystem::exists(kShared / "oracle/jctsim.cpp")) {
    std::puts("[skipped] the reference simulator is not here");
    return;
  }
  const auto folder = std::filesystem::temp_directory_path() / ("tranche-replay-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string oracle = folder / "jctsim";
  REQUIRE(std::system(("g++ -std=c++17 -O1 -w -o " + oracle + " " +  // NOLINT(concurrency-mt-unsafe)
                       (kShared / "oracle/jctsim.cpp").string())
                          .c_str()) == 0);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const ReplayTrace trace = random_trace(seed);
    write_trace(trace, folder);
    const std::string files = (folder / "jobs.csv").string() + " " + (folder / "pools.csv").string();
    for (const Walls walls : {Walls::kPerPool, Walls::kNone}) {
      const std::string said =
          output_of(oracle + " " + files + " --pool " + (walls == Walls::kNone ? "shared" : "vc"));
      for (const QueueRule rule : {QueueRule::kFifo, QueueRule::kEasy}) {
        const std::string ours = line_of(trace, rule, walls);
        CHECK_MESSAGE(said.find(ours) != std::string::npos, ours, " is not in\n", said);
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("replay queue: a job larger than its pool is counted, and holds nobody up") {
  ReplayTrace trace;
  trace.pools = {{"small", 1}};
  trace.jobs = {{0, 100, 9, 0}, {1, 10, 8, 0}};
  QueueOptions options;
  const ReplayReport report = summarise(trace, replay_queue(trace, options));
  CHECK(report.never_able_to_run == 1);
  CHECK(report.max_wait_seconds == 0);
}
