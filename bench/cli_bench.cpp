// SPDX-License-Identifier: Apache-2.0
// What a person waits for at the prompt: the whole `tranche` process, from fork to the last row read.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "bench/bench.hpp"
#include "bench/http_load.hpp"
#include "bench/server_process.hpp"
#include "cli/job_table.hpp"
#include "wire/codec.hpp"

namespace tranche::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kJobs = 10'000;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

void submit_jobs(const ServerProcess& server) {
  const auto request = [&](std::string& out, int connection, std::uint64_t number) {
    const std::string body =
        R"({"name":"job-)" + std::to_string(connection) + '-' + std::to_string(number) +
        R"(","resources":{"gpus":"H100:0.5"},"run":"python train.py","limits":{"time":"1h"}})";
    out += http_request("POST",
                        "/v1/jobs",
                        "Authorization: Bearer " + server.token() + "\r\nContent-Type: application/json\r\n",
                        body);
  };
  const auto done = run_http_load({.port = server.port(),
                                   .connections = 64,
                                   .request = request,
                                   .count_max = kJobs,
                                   .duration = std::chrono::seconds(120),
                                   .warm_up = std::chrono::milliseconds(0)});
  if (!done.statuses.contains(201) || done.statuses.at(201) < kJobs) {
    throw std::runtime_error("the server did not take ten thousand jobs");
  }
}

std::string canned_list() {
  wire::JobList list;
  for (std::size_t i = 1; i <= kJobs; ++i) {
    list.items.push_back({.id = JobId{i},
                          .name = "train-13b-" + std::to_string(i),
                          .owner = "acme/research/ana",
                          .reason = "no capacity connected",
                          .gpus = "H100:0.5",
                          .priority = 50,
                          .submitted = Instant(std::chrono::seconds(1'763'000'000 + i))});
  }
  return wire::to_json(list);
}

std::vector<Row> run() {
  std::vector<Row> rows;
  const std::string body = canned_list();
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const auto begin = Clock::now();
    cli::JobTable table(Instant(std::chrono::seconds(1'763'100'000)), cli::Show::kAlways);
    table.add_page(body, SIZE_MAX);
    const std::string text = table.take().text();
    if (text.size() < kJobs * 50) throw std::runtime_error("rows are missing");
    times.push_back(milliseconds_since(begin));
  }
  rows.push_back(
      {.what = "ps: 10,000 jobs from JSON to rows, median of 15", .value = median(times), .unit = "ms"});

  ServerProcess server(fresh_folder());
  server.start();
  std::vector<double> starts;
  for (int i = 0; i < 21; ++i) starts.push_back(server.run({"--version"}).milliseconds);
  rows.push_back({.what = "start of the binary: tranche --version, median of 21",
                  .value = median(starts),
                  .unit = "ms"});
  submit_jobs(server);
  std::vector<double> lists;
  for (int i = 0; i < 21; ++i) {
    const Finished finished = server.run({"ps"});
    const auto lines = std::count(finished.output.begin(), finished.output.end(), '\n');
    if (static_cast<std::size_t>(lines) <= kJobs) throw std::runtime_error("rows are missing");
    lists.push_back(finished.milliseconds);
  }
  rows.push_back(
      {.what = "tranche ps, real server, 10,000 jobs, all rows printed, whole process, median of 21",
       .value = median(lists),
       .unit = "ms",
       .goal = 50,
       .better = Better::kLower,
       .peer = "SkyPilot users report 10 s for status",
       .peer_source = PeerSource::kQuoted});
  return rows;
}

}  // namespace

Suite cli_suite() {
  return {.name = "cli", .about = "what a person waits for at the prompt", .run = run};
}

}  // namespace tranche::bench
