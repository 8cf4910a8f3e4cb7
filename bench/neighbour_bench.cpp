// SPDX-License-Identifier: Apache-2.0
// What a job loses while another on the same node does its worst, all the time that is measured. Both have
// half of a CPU on this machine; the victim counts how often it gets through a fixed piece of arithmetic.
// Machines have moods that last longer than a window: so windows alone and beside take turns, every one
// beside is held against the mean of the two around it, and the middle one of these losses counts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/text.hpp"
#include "bench/bench.hpp"
#include "bench/site.hpp"

namespace tranche::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kWindow = 4s;
constexpr auto kSettle = 1s;
constexpr int kTurns = 5;

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
    if now - told >= 0.25: print(now, done, time.process_time()); told = now
')";

std::string job(const std::string& run, const std::string& more = {}) {
  std::string escaped;
  for (const char letter : run)
    escaped += letter == '\n'  ? std::string("\\n")
               : letter == '"' ? std::string("\\\"")
                               : std::string(1, letter);
  return R"({"run":")" + escaped + R"(","resources":{"cpus":"0.5")" + more + "}}";
}

// How the victim got on between its first and its last word within a window.
struct Pace {
  double pieces = 0;     // A second.
  double processor = 0;  // Seconds of it, a second.
};

Pace pace(Caller& user, JobId victim) {
  const auto words = [&] { return user.ask("GET", "/v1/jobs/" + text(victim) + "/logs?stream=stdout"); };
  const std::size_t from = words().size();
  std::this_thread::sleep_for(kWindow);
  std::istringstream lines(words().substr(from));
  struct Word {
    double at = 0, done = 0, processor = 0;
  };
  std::optional<Word> first, last;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    std::istringstream fields(line);
    Word word;
    if (!(fields >> word.at >> word.done >> word.processor)) continue;
    if (!first) first = word;
    last = word;
  }
  if (!first || last->at <= first->at) throw std::runtime_error("the victim said nothing");
  const double seconds = last->at - first->at;
  return {(last->done - first->done) / seconds, (last->processor - first->processor) / seconds};
}

Pace pace_beside(Caller& good, JobId victim, Caller& bad, const Evil& evil) {
  const JobId other =
      bad.submit(job(evil.run, std::string(R"(,"memory":")") + evil.memory + R"(","disk":"512MiB")"));
  bad.until_started(other);
  std::this_thread::sleep_for(kSettle);
  const Pace beside = pace(good, victim);
  if (const auto now = bad.job(other); wire::is_over(now.job.state))
    throw std::runtime_error("the neighbour that " + std::string(evil.name) +
                             " ended by itself: " + now.message);
  bad.stop(other);
  bad.until_over(other);
  std::this_thread::sleep_for(kSettle);  // What it left is wiped.
  return beside;
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Losses {  // In percent, one for each turn.
  std::vector<double> pieces;
  std::vector<double> processor;
};

Losses losses(Caller& good, JobId victim, Caller& bad, const Evil& evil) {
  const auto lost = [](double before, double beside, double after) {
    return (1 - beside / ((before + after) / 2)) * 100;
  };
  Losses all;
  Pace before = pace(good, victim);
  for (int turn = 0; turn < kTurns; ++turn) {
    const Pace beside = pace_beside(good, victim, bad, evil);
    const Pace after = pace(good, victim);
    all.pieces.push_back(lost(before.pieces, beside.pieces, after.pieces));
    all.processor.push_back(lost(before.processor, beside.processor, after.processor));
    before = after;
  }
  return all;
}

std::string spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  char text[64];
  std::snprintf(text, sizeof text, "%d turns from %.1f to %.1f", kTurns, *least, *most);
  return text;
}

}  // namespace

std::vector<Row> neighbour_rows() {
  if (!wanted("neighbour")) return {};
  Site site;
  Caller good = site.user("acme", "ana");
  Caller bad = site.user("globex", "bo");
  const JobId victim = good.submit(job(kVictim));
  good.until_started(victim);
  std::this_thread::sleep_for(kSettle);
  std::vector<Row> rows;
  double worst = 0;
  for (const Evil& evil : kEvils) {
    progress(std::string("neighbour: ") + evil.name);
    const Losses all = losses(good, victim, bad, evil);
    const std::string what = std::string("a job's loss while its neighbour ") + evil.name;
    worst = std::max(worst, middle(all.pieces));
    rows.push_back(
        {.what = what + ", the middle of " + spread(all.pieces), .value = middle(all.pieces), .unit = "%"});
    rows.push_back(
        {.what = "  processor time that it did not get", .value = middle(all.processor), .unit = "%"});
  }
  good.stop(victim);
  good.until_over(victim);
  rows.push_back(
      {.what = "the worst of these", .value = worst, .unit = "%", .goal = 5, .better = Better::kLower});
  return rows;
}

}  // namespace tranche::bench
