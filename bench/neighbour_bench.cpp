// SPDX-License-Identifier: Apache-2.0
// What a job loses while another on the same node does its worst, all the time that is measured. Both have
// half of a CPU on this machine; the victim counts how often it gets through a fixed piece of arithmetic.
#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>
#include <thread>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kWindow = 8s;
constexpr auto kSettle = 2s;

struct Evil {
  const char* name;
  const char* run;
  const char* memory = "256MiB";
};
constexpr std::array kEvils = {
    // A shell gives up at the first child it cannot have; this one goes on. Small children: the bound on
    // processes is met, and not the one on memory.
    Evil{"forks without end",
         R"(exec python3 -c '
import os
while True:
    try: os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    except OSError: pass
')",
         "4GiB"},
    Evil{"fills its disk again and again",
         "while :; do head -c 200000000 /dev/zero > f 2>/dev/null; sync f; rm -f f; done"},
    Evil{"floods its log", "exec yes 'a line that says nothing at all, and says it again and again'"},
    Evil{"eats memory", "while :; do python3 -c 'x = bytearray(400 << 20)'; done"}};

constexpr const char* kVictim = R"(exec python3 -uc '
import time
done, told = 0, time.monotonic()
while True:
    total = 0
    for i in range(20000): total += i * i
    done += 1
    now = time.monotonic()
    if now - told >= 0.25: print(now, done); told = now
')";

std::string job(const std::string& run, const std::string& more = {}) {
  std::string escaped;
  for (const char letter : run)
    escaped += letter == '\n'  ? std::string("\\n")
               : letter == '"' ? std::string("\\\"")
                               : std::string(1, letter);
  return R"({"run":")" + escaped + R"(","resources":{"cpus":"0.5")" + more + "}}";
}

// Pieces a second, between the first and the last word of the victim within the window.
double rate(Caller& user, JobId victim, std::chrono::milliseconds window) {
  const auto size = [&] {
    return user.ask("GET", "/v1/jobs/" + text(victim) + "/logs?stream=stdout").size();
  };
  const std::size_t from = size();
  std::this_thread::sleep_for(window);
  std::istringstream lines(user.ask("GET", "/v1/jobs/" + text(victim) + "/logs?stream=stdout").substr(from));
  double first_at = 0, first_done = 0, at = 0, done = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    std::istringstream words(line);
    if (!(words >> at >> done)) continue;
    if (first_at == 0) first_at = at, first_done = done;
  }
  if (at <= first_at) throw std::runtime_error("the victim said nothing");
  return (done - first_done) / (at - first_at);
}

}  // namespace

std::vector<Row> neighbour_rows() {
  if (!wanted("neighbour")) return {};
  Site site;
  Caller good = site.user("acme", "ana");
  Caller bad = site.user("globex", "bo");
  const JobId victim = good.submit(job(kVictim));
  while (!good.job(victim).job.started) std::this_thread::sleep_for(5ms);
  std::this_thread::sleep_for(kSettle);
  std::vector<Row> rows;
  double worst = 0;
  for (const Evil& evil : kEvils) {
    progress(std::string("neighbour: ") + evil.name);
    const double alone = rate(good, victim, kWindow);
    const JobId other =
        bad.submit(job(evil.run, std::string(R"(,"memory":")") + evil.memory + R"(","disk":"512MiB")"));
    while (!bad.job(other).job.started) std::this_thread::sleep_for(5ms);
    std::this_thread::sleep_for(kSettle);
    const double beside = rate(good, victim, kWindow);
    if (const auto now = bad.job(other); wire::is_over(now.job.state))
      throw std::runtime_error("the neighbour that " + std::string(evil.name) +
                               " ended by itself: " + now.message);
    bad.stop(other);
    bad.until_over(other);
    const double loss = (1 - beside / alone) * 100;
    worst = std::max(worst, loss);
    rows.push_back(
        {.what = std::string("a job's loss while its neighbour ") + evil.name, .value = loss, .unit = "%"});
  }
  good.stop(victim);
  good.until_over(victim);
  rows.push_back(
      {.what = "the worst of these", .value = worst, .unit = "%", .goal = 5, .better = Better::kLower});
  return rows;
}

}  // namespace tranche::bench
