// SPDX-License-Identifier: Apache-2.0
// From a submission over HTTP to a process in its sandbox, through every part of the platform.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::system_clock;

double milliseconds(Instant from, Instant to) {
  return static_cast<double>((to - from).count()) / 1000;
}

// The time is taken inside the job, by its own first step, so that no report and no poll is counted.
double start_time(Caller& user) {
  const auto began = std::chrono::time_point_cast<Duration>(Clock::now());
  const JobId id = user.submit(R"({"run":"date +%s%6N"})");
  user.until_over(id);
  for (int i = 0; i < 400; ++i) {  // Logs follow the end.
    const std::string out = user.ask("GET", "/v1/jobs/" + text(id) + "/logs?stream=stdout");
    if (!out.empty()) return milliseconds(began, Instant(Duration(std::stoll(out))));
    std::this_thread::sleep_for(5ms);
  }
  throw std::runtime_error("a job left no output");
}

Row jobs_per_second(Caller& user) {
  constexpr int kJobs = 400;
  std::vector<JobId> jobs;
  progress("path: " + std::to_string(kJobs) + " short jobs");
  const auto began = Clock::now();
  jobs.reserve(kJobs);
  // An eighth of a CPU each: so many run side by side as the node by itself is asked for.
  for (int i = 0; i < kJobs; ++i)
    jobs.push_back(user.submit(R"({"run":"true","resources":{"cpus":"0.125"}})"));
  for (const JobId id : jobs) user.until_over(id);
  return {.what = "short jobs finished on one node, sandboxed, submitted over HTTP one by one",
          .value = kJobs / std::chrono::duration<double>(Clock::now() - began).count(),
          .unit = "jobs/s",
          .goal = 200,
          .peer = "Slurm 58/s, without a sandbox",
          .peer_source = PeerSource::kQuoted};
}

// The one command that an operator types, as a whole process; it ends when the job runs.
Row first_job_of_a_tenant(Site& site) {
  constexpr int kTenants = 5;
  progress("path: tranche tenant create --run, " + std::to_string(kTenants) + " times");
  std::vector<double> took;
  for (int i = 0; i < kTenants; ++i) {
    const std::string tenant = "newcomer" + std::to_string(i);
    const Finished done = site.run({"tenant", "create", tenant, "--run", "sleep 60", "-o", "name"});
    const auto job = parse_id("job_", done.output.substr(0, done.output.find('\n')));
    if (!job || !site.root().job(JobId{*job}).job.started)
      throw std::runtime_error("the first job of " + tenant + " does not run: " + done.output);
    took.push_back(done.milliseconds / 1000);
    site.root().stop(JobId{*job});
  }
  std::sort(took.begin(), took.end());
  return {.what =
              "new tenant -> its first job running: tranche tenant create NAME --run, the whole command, "
              "worst of " +
              std::to_string(kTenants),
          .value = took.back(),
          .unit = "s",
          .goal = 1,
          .better = Better::kLower,
          .peer = "30 minutes is what the industry reports",
          .peer_source = PeerSource::kQuoted};
}

}  // namespace

std::vector<Row> node_path_rows() {
  if (!wanted("path")) return {};
  Site site;
  Caller user = site.user("acme", "ana");
  constexpr int kStarts = 100;
  constexpr auto kPatience = 20s;  // A busy machine gives fewer starts, not a longer wait.
  std::vector<double> starts;
  progress("path: " + std::to_string(kStarts) + " submissions, one by one");
  const auto since = Clock::now();
  while (starts.size() < kStarts && Clock::now() - since < kPatience) starts.push_back(start_time(user));
  std::sort(starts.begin(), starts.end());
  const std::string slurm = "Slurm: sbatch 850 / 1,724 ms; srun 42 ms for the round trip, without a sandbox";
  std::vector<Row> rows;
  rows.push_back({.what = "submission over HTTP -> first instruction of the job in its sandbox, p50",
                  .value = starts[starts.size() / 2],
                  .unit = "ms",
                  .goal = 25,
                  .better = Better::kLower,
                  .peer = slurm,
                  .peer_source = PeerSource::kQuoted});
  rows.push_back({.what = "their p99",
                  .value = starts[starts.size() * 99 / 100],
                  .unit = "ms",
                  .goal = 100,
                  .better = Better::kLower,
                  .peer = slurm,
                  .peer_source = PeerSource::kQuoted});
  rows.push_back(jobs_per_second(user));
  rows.push_back(first_job_of_a_tenant(site));
  return rows;
}

}  // namespace tranche::bench
