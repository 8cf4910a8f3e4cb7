// SPDX-License-Identifier: Apache-2.0
// A node with many running jobs whose server and agent are killed and started again: all of them go on.
#include <chrono>
#include <thread>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kJobs = 200;
constexpr auto kPatience = 45s;  // For all of them to begin, and again for all of them to be heard of.

std::string log_of(Caller& user, JobId id) {
  return user.ask("GET", "/v1/jobs/" + text(id) + "/logs?stream=stdout");
}

// Whether the job wrote more than before, within the patience that is left.
bool wrote_on(Caller& user, JobId id, std::size_t before, Clock::time_point deadline) {
  while (log_of(user, id).size() <= before) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

}  // namespace

std::vector<Row> adoption_rows() {
  if (!wanted("adoption")) return {};
  progress("adoption: " + std::to_string(kJobs) + " jobs begin");
  Site site;
  Caller user = site.user("acme", "ana");
  std::vector<JobId> jobs;
  for (int i = 0; i < kJobs; ++i)
    jobs.push_back(
        user.submit(R"({"run":"while :; do echo $$; sleep 2; done","resources":{"cpus":"0.01"}})"));
  const auto submitted = Clock::now();
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (!wrote_on(user, jobs[i], 0, submitted + kPatience))
      throw std::runtime_error("of " + std::to_string(kJobs) + " jobs only " + std::to_string(i) +
                               " began in time: the machine is too busy for this figure");
  progress("adoption: agent and server are killed");
  const auto began = Clock::now();
  site.kill_and_start();
  user = site.again(user);
  int adopted = 0;
  for (const JobId id : jobs) {
    // One process from its first line to one written after the restart, in the job's first attempt.
    const std::string before = log_of(user, id);
    if (!wrote_on(user, id, before.size(), began + kPatience) || user.job(id).attempts != 1) continue;
    const std::string after = log_of(user, id);
    const std::string process = after.substr(0, after.find('\n') + 1);
    std::string same;
    while (same.size() < after.size()) same += process;
    adopted += same == after ? 1 : 0;
  }
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  for (const JobId id : jobs) {
    const wire::JobDetail detail = user.job(id);
    if (wire::is_over(detail.job.state))
      progress("adoption: " + text(id) + " ended: " + detail.job.reason + "; " + detail.message);
    user.stop(id);
  }
  for (const JobId id : jobs) user.until_over(id);
  return {{.what = "of 200 running jobs, undisturbed by a kill of agent and server and adopted by the next",
           .value = static_cast<double>(adopted),
           .unit = "jobs",
           .goal = kJobs},
          {.what = "kill -> every one of them was heard of again", .value = took, .unit = "s"}};
}

}  // namespace tranche::bench
