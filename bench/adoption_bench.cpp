// SPDX-License-Identifier: Apache-2.0
// A node with many running jobs whose agent, alone or with its server, is killed and started again: all of
// them go on, in the same process, without a pause, and are heard of.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
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
// Each says every two seconds which process it is, and when, on the clock that the bench reads too.
constexpr const char* kJob =
    R"({"run":"while :; do read up rest </proc/uptime; echo $$ $up; sleep 2; done","resources":{"cpus":"0.01"}})";

double uptime() {
  double seconds = 0;
  std::ifstream("/proc/uptime") >> seconds;
  return seconds;
}

struct Word {
  long process = 0;
  double at = 0;
};

std::vector<Word> words_of(Caller& user, JobId id) {
  std::istringstream lines(user.ask("GET", "/v1/jobs/" + text(id) + "/logs?stream=stdout"));
  std::vector<Word> words;
  for (Word word; lines >> word.process >> word.at;) words.push_back(word);
  return words;
}

// Looks at all of them in turns; those that said something after `since`, within the patience.
std::vector<JobId> heard_of(Caller& user,
                            const std::vector<JobId>& jobs,
                            double since,
                            Clock::time_point deadline) {
  std::vector<JobId> heard, silent = jobs;
  for (;;) {
    std::erase_if(silent, [&](JobId id) {
      const std::vector<Word> words = words_of(user, id);
      if (words.empty() || words.back().at <= since) return false;
      heard.push_back(id);
      return true;
    });
    if (silent.empty() || Clock::now() > deadline) return heard;
    std::this_thread::sleep_for(20ms);
  }
}

bool is_one_process(const std::vector<Word>& words) {
  return std::all_of(
      words.begin(), words.end(), [&](const Word& word) { return word.process == words.front().process; });
}

double longest_silence(const std::vector<Word>& words) {
  double longest = 0;
  for (std::size_t i = 1; i < words.size(); ++i) longest = std::max(longest, words[i].at - words[i - 1].at);
  return longest;
}

void end_all(Caller& user, const std::vector<JobId>& jobs) {
  for (const JobId id : jobs) {
    const wire::JobDetail detail = user.job(id);
    if (wire::is_over(detail.job.state))
      progress("adoption: " + text(id) + " ended: " + detail.job.reason + "; " + detail.message);
    user.stop(id);
  }
  for (const JobId id : jobs) user.until_over(id);
}

std::vector<Row> adoption(AgentKind kind, const std::string& killed) {
  progress("adoption: " + std::to_string(kJobs) + " jobs begin");
  Site site(kind);
  Caller user = site.user("acme", "ana");
  std::vector<JobId> jobs;
  for (int i = 0; i < kJobs; ++i) jobs.push_back(user.submit(kJob));
  const std::size_t began = heard_of(user, jobs, 0, Clock::now() + kPatience).size();
  if (began < kJobs)
    throw std::runtime_error("of " + std::to_string(kJobs) + " jobs only " + std::to_string(began) +
                             " began in time: the machine is too busy for this figure");
  progress("adoption: kill of " + killed);
  const auto killed_at = Clock::now();
  site.kill_and_start();
  user = site.again(user);
  const double since = uptime();
  std::vector<JobId> heard = heard_of(user, jobs, since, killed_at + kPatience);
  const double took = std::chrono::duration<double>(Clock::now() - killed_at).count();
  double silence = 0;
  const auto undisturbed = std::count_if(heard.begin(), heard.end(), [&](JobId id) {
    const std::vector<Word> words = words_of(user, id);
    silence = std::max(silence, longest_silence(words));
    return is_one_process(words) && user.job(id).attempts == 1;
  });
  end_all(user, jobs);
  return {
      {.what = "of 200 running jobs, undisturbed by a kill of " + killed + " and adopted by the next",
       .value = static_cast<double>(undisturbed),
       .unit = "jobs",
       .goal = kJobs},
      {.what = "kill of " + killed + " -> every one of them was heard of again", .value = took, .unit = "s"},
      {.what = "longest time between two words of one of them, which speaks every 2 s",
       .value = silence,
       .unit = "s"}};
}

}  // namespace

std::vector<Row> adoption_rows() {
  if (!wanted("adoption")) return {};
  std::vector<Row> rows = adoption(AgentKind::kJoined, "the agent");
  for (Row& row : adoption(AgentKind::kOfServer, "agent and server")) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tranche::bench
