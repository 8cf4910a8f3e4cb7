// SPDX-License-Identifier: Apache-2.0
// The path a user takes: a real `tranche server` process, token, RBAC, admission, audit, one fsync before
// each answer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <vector>

#include "base/wall_clock.hpp"
#include "bench/bench.hpp"
#include "bench/http_load.hpp"
#include "bench/server_process.hpp"
#include "bench/site.hpp"
#include "engine/world.hpp"
#include "server/loop.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kJob =
    R"({"name":"train-13b","resources":{"gpus":"H100:0.5"},"run":"python train.py --config base.yaml",)"
    R"("limits":{"time":"1h"},"labels":{"team":"nlp"}})";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

HttpLoadResult load(const ServerProcess& server,
                    std::string_view path,
                    std::string_view body,
                    std::chrono::seconds length) {
  const std::string request =
      http_request("POST",
                   path,
                   "Authorization: Bearer " + server.token() + "\r\nContent-Type: application/json\r\n",
                   body);
  return run_http_load({.port = server.port(),
                        .connections = 64,
                        .request = [&](std::string& out, int, std::uint64_t) { out += request; },
                        .duration = length});
}

double sync_p50_ms(const std::filesystem::path& folder) {
  const auto file_path = folder / "sync-probe";
  const int file = ::open(file_path.c_str(), O_WRONLY | O_CREAT, 0600);
  const std::vector<char> block(4096, 'x');
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    if (::pwrite(file, block.data(), block.size(), i * 4096) < 0 || ::fdatasync(file) != 0) break;
    times.push_back(seconds_since(start) * 1000);
  }
  ::close(file);
  std::filesystem::remove(file_path);
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times[times.size() / 2];
}

double shell_milliseconds(const std::string& command) {
  const auto start = Clock::now();
  const int status = std::system(command.c_str());
  return status == 0 ? seconds_since(start) * 1000 : -1;
}

// A journal of a million records, made by the very loop that the server runs, without the network.
void fill_journal(const std::filesystem::path& data, std::uint64_t records) {
  server::LoopOptions options{.folder = data};
  options.clock = [] { return wall_clock(); };
  server::Loop loop(std::move(options));
  loop.start();
  engine::TokenHash hash{};
  hash[0] = 9;
  std::atomic<std::uint64_t> done = 0;
  const auto count = [&](const server::Outcome&) { ++done; };
  loop.submit({.origin = "local"}, engine::Found{"operator", hash}, count);
  engine::SubmitJob job{.name = "n", .ask = engine::gpus(1, 500), .spec = std::string(kJob)};
  const Envelope envelope{.actor = PartyId::make(PartyKind::kUser, 1), .token = {1}, .origin = "local"};
  for (std::uint64_t sent = 1; sent < records; ++sent) {
    while (sent - done > 10'000) std::this_thread::sleep_for(std::chrono::microseconds(200));
    // Every second one stops the job before: histories are longer than queues.
    if (sent % 2 == 0) {
      loop.submit(envelope, engine::StopJob{{sent / 2}}, count);
    } else {
      loop.submit(envelope, job, count);
    }
  }
  while (done < records) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

double metric(Caller& caller, const std::string& name) {
  const std::string all = caller.ask("GET", "/metrics");
  const auto at = all.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::strtod(all.c_str() + at + name.size() + 2, nullptr);
}

std::vector<Row> submission_rows() {
  ServerProcess server(fresh_folder());
  server.start();
  Caller caller(server.port(), server.token());
  const double sync = sync_p50_ms(server.data());
  load(server, "/v1/ping", "{}", std::chrono::seconds(1));  // Warms it up.
  const auto noop = load(server, "/v1/ping", "{}", std::chrono::seconds(4));
  const double before = metric(caller, "tranche_journal_commits_total");
  const double spent = server.cpu_seconds();
  const auto jobs = load(server, "/v1/jobs", kJob, std::chrono::seconds(6));
  const double worked = server.cpu_seconds() - spent;
  const double commits = metric(caller, "tranche_journal_commits_total") - before;
  const auto accepted = jobs.statuses.contains(201) ? jobs.statuses.at(201) : 0;
  const double rate = jobs.seconds > 0 ? static_cast<double>(accepted) / jobs.seconds : 0;
  return {{.what = "fdatasync of 4 KiB on the same disk, p50", .value = sync, .unit = "ms"},
          {.what = "job submissions over HTTP, 64 connections, durable",
           .value = rate,
           .unit = "jobs/s",
           .goal = 15'000,
           .peer = "slurmrestd, 8 connections: 1,312/s, p99 13.6 ms, not durable per job",
           .peer_source = PeerSource::kQuoted},
          {.what = "their p99",
           .value = jobs.latency.percentile_ms(99),
           .unit = "ms",
           .goal = 30,
           .better = Better::kLower},
          {.what = "made durable by one commit, on average",
           .value = commits > 0 ? static_cast<double>(accepted) / commits : 0,
           .unit = "jobs"},
          {.what = "processor time of the server for one",
           .value = accepted > 0 ? worked * 1e6 / static_cast<double>(accepted) : 0,
           .unit = "us"},
          {.what = "authenticated no-op POST, same run", .value = noop.per_second(), .unit = "requests/s"},
          {.what = "submissions / no-op",
           .value = noop.per_second() > 0 ? rate / noop.per_second() : 0,
           .unit = "ratio",
           .goal = 0.6}};
}

Row ps_row() {
  ServerProcess server(fresh_folder());
  server.start();
  run_http_load({.port = server.port(),
                 .connections = 16,
                 .request =
                     [&](std::string& out, int, std::uint64_t) {
                       out += http_request(
                           "POST", "/v1/jobs", "Authorization: Bearer " + server.token() + "\r\n", kJob);
                     },
                 .count_max = 10'000,
                 .duration = std::chrono::minutes(1),
                 .warm_up = std::chrono::milliseconds(0)});
  const std::string ps = "TRANCHE_URL=http://127.0.0.1:" + std::to_string(server.port()) +
                         " TRANCHE_TOKEN=" + server.token() + " " + ServerProcess::binary().string() +
                         " ps > /dev/null";
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, shell_milliseconds(ps));
  return {.what = "tranche ps with 10,000 jobs, all rows (best of 5)",
          .value = best,
          .unit = "ms",
          .goal = 50,
          .better = Better::kLower,
          .peer = "SkyPilot users report 10 s for status",
          .peer_source = PeerSource::kQuoted};
}

Row start_row() {
  ServerProcess server(fresh_folder());
  fill_journal(server.data(), 1'000'000);
  return {.what = "start with 1,000,000 records (snapshot + tail)",
          .value = server.start(),
          .unit = "s",
          .goal = 2,
          .better = Better::kLower};
}

std::vector<Row> api_rows() {
  std::vector<Row> rows;
  if (wanted("submissions")) rows = submission_rows();
  if (wanted("ps")) rows.push_back(ps_row());
  if (wanted("start")) rows.push_back(start_row());
  return rows;
}

}  // namespace

Suite api_suite() {
  return {"api", "the whole path over HTTP: token, RBAC, admission, audit, fsync", api_rows};
}

}  // namespace tranche::bench
