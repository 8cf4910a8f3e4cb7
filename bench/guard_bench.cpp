// SPDX-License-Identifier: Apache-2.0
// The guard on the simulated device: costs, shares, latency. One setting for all rows; nothing tuned per
// workload.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/guard_lab.hpp"
#include "bench/guard_rows.hpp"

namespace tranche::bench {
namespace {

double ms_of(const std::string& kernel) {
  const double number = std::atof(kernel.c_str());
  return kernel.find("us") != std::string::npos ? number / 1000 : number;
}
double lag_ms(const std::string& lag) {
  return ms_of(lag);
}

// Enough in flight that the workload itself never starves the device, also when it learns of ends late.
Job tenant(const std::string& kernel,
           double percent,
           double seconds,
           const std::string& lag,
           std::vector<std::string> more = {}) {
  const int in_flight = std::min(400, static_cast<int>((lag_ms(lag) + 10) / ms_of(kernel)) + 4);
  Job job{"tenant",
          {"--kernel",
           kernel,
           "--seconds",
           std::to_string(seconds),
           "--lead-seconds",
           "1",
           "--in-flight",
           std::to_string(in_flight)},
          fair(percent),
          true};
  job.arguments.insert(job.arguments.end(), more.begin(), more.end());
  return job;
}

struct Shares {
  double first = 0;  // Percent of what all got.
  double busy = 0;   // Percent of the device.
};
Shares shares_of(const std::vector<Figures>& figures,
                 const std::vector<std::string>& kernels,
                 double seconds) {
  double first = 0;
  double all = 0;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const auto found = figures[i].find("kernels");
    const double ms = found == figures[i].end() ? 0 : found->second * ms_of(kernels[i]);
    if (i == 0) first = ms;
    all += ms;
  }
  return {all == 0 ? 0 : 100 * first / all, all / (seconds * 10)};
}

double figure(const Figures& figures, const std::string& name) {
  const auto found = figures.find(name);
  return found == figures.end() ? NAN : found->second;
}

// What the guard called in the last process of these statistics, and the workload itself does not.
double added_calls(const std::string& stats) {
  double calls = 0;
  for (const char* name :
       {"cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuCtxGetCurrent", "cuCtxGetDevice"}) {
    const std::size_t at = stats.rfind(std::string("\"") + name + "\": ");
    if (at != std::string::npos) calls += std::atof(stats.c_str() + at + std::string(name).size() + 4);
  }
  return calls;
}

constexpr int kCostRounds = 7;

void costs(Rows& out) {
  for (const char* charge : {"", ",event_record_cost=0,event_query_cost=0"}) {
    const bool charged = *charge == 0;
    for (const char* live : {"0", "1000", "10000"}) {
      if (!charged && std::string(live) != "0") continue;
      double launch[2] = {1e9, 1e9};  // Directly, and through the guard.
      double pair[2] = {1e9, 1e9};
      for (int round = 0; round < kCostRounds; ++round) {
        GuardLab lab(std::string("event_lag=20us") + charge, Scheduling::kRealTime);
        Job job{"call_cost", {"--live", live}, cap(50), false};
        const Figures direct = lab.run({job}, 0.1)[0];
        job.guarded = true;
        const Figures guarded = lab.run({job}, 0.1)[0];
        for (int way = 0; way < 2; ++way) {
          const Figures& figures = way == 0 ? direct : guarded;
          launch[way] = std::min(launch[way], figure(figures, "launch_ns"));
          pair[way] = std::min(pair[way], figure(figures, "pair_ns"));
        }
        if (charged && round == 0 && std::string(live) == "0") {
          out.add("driver calls added per launch, short kernels",
                  added_calls(lab.stats(5)) / 180'000.0,
                  "calls",
                  0,
                  Better::kLower);
        }
      }
      const std::string how = charged ? "" : ", added driver calls free of charge";
      if (std::string(live) == "0")
        out.add("added cost per launch, cap on" + how + " (median, best of 7)",
                launch[1] - launch[0],
                "ns",
                charged ? 15 : 0,
                Better::kLower,
                "HAMi-core 30 ns; XSched 290-760 ns");
      if (charged)
        out.add(std::string("added cost per allocate + free, ") + live + " live (median, best of 7)",
                pair[1] - pair[0],
                "ns",
                150,
                Better::kLower,
                "HAMi-core 880 / 3,200 / 26,000 ns");
    }
  }
}

void caps(Rows& out) {
  for (const double percent : {10.0, 30.0, 50.0, 70.0, 90.0}) {
    GuardLab lab("event_lag=20us", Scheduling::kRealTime);
    Job job = tenant("2ms", percent, 10, "20us");
    job.limits = cap(percent);
    const std::vector<Figures> figures = lab.run({job});
    const Shares shares = shares_of(figures, {"2ms"}, 10);
    double worst = 0;
    for (int i = 0; i < 10; ++i)
      worst = std::max(worst, std::abs(figure(figures[0], "window_" + std::to_string(i)) * 0.2 - percent));
    out.add("cap " + std::to_string(static_cast<int>(percent)) + " %, 10 s: points off",
            std::abs(shares.busy - percent),
            "points",
            1,
            Better::kLower,
            "HAMi-core 32, 66, 89, 95 % for 10, 30, 50, 70");
    out.add("cap " + std::to_string(static_cast<int>(percent)) + " %, worst second of ten: points off",
            worst,
            "points",
            5,
            Better::kLower);
  }
}

void pair_row(Rows& out,
              const std::string& what,
              const std::string& first,
              const std::string& second,
              const std::string& lag,
              const std::vector<std::string>& more,
              const std::string& peer = "") {
  if (!wanted("pairs " + what + " " + lag)) return;
  const double seconds = 5;
  GuardLab lab("event_lag=" + lag, Scheduling::kRealTime);
  const Shares shares =
      shares_of(lab.run({tenant(first, 30, seconds, lag, more), tenant(second, 70, seconds, lag, more)}),
                {first, second},
                seconds);
  out.add("30/70, " + what + ", events known after " + lag + ": points off",
          std::abs(shares.first - 30),
          "points",
          1,
          Better::kLower,
          peer);
  out.add("30/70, " + what + ", events known after " + lag + ": device busy",
          shares.busy,
          "%",
          98,
          Better::kHigher);
}

void pairs(Rows& out) {
  for (const char* lag : {"20us", "500us", "5ms"}) {
    pair_row(out, "kernels of 0.1 ms", "100us", "100us", lag, {}, "XSched 29.8/70.1");
    pair_row(out, "kernels of 2 ms", "2ms", "2ms", lag, {}, "HAMi-core 48.8/51.2; XSched 30.05/69.95 tuned");
    pair_row(out, "kernels of 20 ms", "20ms", "20ms", lag, {});
    pair_row(
        out, "kernels of 20 ms against 2 ms", "20ms", "2ms", lag, {}, "HAMi-core 91/9; XSched 79.9/20.1");
  }
  pair_row(out, "huge grids", "2ms", "2ms", "20us", {"--grid", "65536", "--grid-y", "32768"});
  pair_row(out, "few blocks", "2ms", "2ms", "20us", {"--grid", "1"});
  pair_row(out, "cuLaunchKernelEx", "2ms", "2ms", "20us", {"--path", "ex"});
  pair_row(out, "cooperative", "2ms", "2ms", "20us", {"--path", "cooperative"}, "XSched 35.6/64.3");
  pair_row(out, "graphs", "2ms", "2ms", "20us", {"--path", "graph"}, "HAMi-core: not capped");
  pair_row(out, "NULL stream", "2ms", "2ms", "20us", {"--stream", "null"}, "XSched 50/50");
  pair_row(out, "per-thread stream twins", "2ms", "2ms", "20us", {"--path", "ptsz", "--stream", "null"});
}

// A device that copies slowly, so that the host has little to move: 1,100,000 bytes take 2 ms.
void copies(Rows& out) {
  const double seconds = 5;
  GuardLab lab("event_lag=20us,host_copy_bytes_per_us=550", Scheduling::kRealTime);
  const std::vector<std::string> way = {"--path", "copy", "--copy-bytes", "1100000"};
  const Shares shares =
      shares_of(lab.run({tenant("2ms", 30, seconds, "20us", way), tenant("2ms", 70, seconds, "20us", way)}),
                {"2ms", "2ms"},
                seconds);
  out.add(
      "30/70, copies to the device: points off", std::abs(shares.first - 30), "points", 1, Better::kLower);
  out.add("30/70, copies to the device: copy engine busy", shares.busy, "%", 98, Better::kHigher);
}

void many(Rows& out) {
  const std::vector<double> entitled = {40, 30, 15, 10, 5};
  GuardLab lab("event_lag=20us", Scheduling::kRealTime);
  std::vector<Job> jobs;
  for (const double percent : entitled) jobs.push_back(tenant("2ms", percent, 10, "20us"));
  const auto figures = lab.run(jobs);
  double all = 0;
  double worst = 0;
  for (const Figures& each : figures) all += figure(each, "kernels");
  for (std::size_t i = 0; i < entitled.size(); ++i)
    worst = std::max(worst, std::abs(100 * figure(figures[i], "kernels") / all - entitled[i]));
  out.add("five tenants 40/30/15/10/5: worst, points off", worst, "points", 1, Better::kLower);

  GuardLab idle_lab("event_lag=20us", Scheduling::kRealTime);
  Job idle{"periodic",
           {"--count", "1", "--kernel", "1us", "--period-ms", "3900", "--seconds", "8"},
           fair(70),
           true};
  const Shares shares = shares_of({idle_lab.run({tenant("2ms", 30, 6, "20us"), idle})[0]}, {"2ms"}, 6);
  out.add("one partner idle, fair: device busy",
          shares.busy,
          "%",
          99.5,
          Better::kHigher,
          "HAMi-core 57 %; XSched 99.99 %");
}

const Job kPeriodic{"periodic", {"--seconds", "10"}, fair(70), true};

void entitled_latency(Rows& out) {
  double alone = 0;
  {
    GuardLab lab("event_lag=20us", Scheduling::kRealTime);
    alone = figure(lab.run({kPeriodic})[0], "p99_ms");
    out.add("5 kernels of 1 ms each 50 ms, alone: p99", alone, "ms", 0, Better::kLower);
  }
  GuardLab lab("event_lag=20us", Scheduling::kRealTime);
  const auto figures = lab.run({tenant("2ms", 30, 9, "20us"), kPeriodic});
  out.add("the same, entitled to 70 %, beside a saturating tenant: p99 / p99 alone",
          figure(figures[1], "p99_ms") / alone,
          "x",
          2,
          Better::kLower,
          "XSched 8 x");
}

void priority_latency(Rows& out) {
  GuardLab lab("event_lag=20us", Scheduling::kRealTime);
  Job urgent = kPeriodic;
  urgent.limits = fair(50, 1);
  const auto figures = lab.run({tenant("2ms", 50, 9, "20us"), urgent});
  out.add("high priority beside a greedy job: p50", figure(figures[1], "p50_ms"), "ms", 0, Better::kLower);
  out.add("high priority beside a greedy job: p99",
          figure(figures[1], "p99_ms"),
          "ms",
          7.5,
          Better::kLower,
          "HAMi-core 43 ms; XSched 7.49 ms at 86.6 %");
  out.add("high priority beside a greedy job: greedy share",
          figure(figures[0], "kernels") * 2 / 90,
          "%",
          88,
          Better::kHigher,
          "XSched 86.6 %");
}

void busy_host(Rows& out) {
  std::vector<pid_t> hogs;
  for (int i = 0; i < 2; ++i) {
    const pid_t hog = ::fork();
    if (hog == 0)
      for ([[maybe_unused]] volatile unsigned spin = 0;;) spin = 1;
    hogs.push_back(hog);
  }
  {
    GuardLab lab("event_lag=20us", Scheduling::kOrdinary);
    const Shares shares = shares_of(
        lab.run({tenant("2ms", 30, 10, "20us"), tenant("2ms", 70, 10, "20us")}), {"2ms", "2ms"}, 10);
    out.add("both cores of the host loaded, 30/70: points off",
            std::abs(shares.first - 30),
            "points",
            2,
            Better::kLower);
    out.add("both cores of the host loaded, 30/70: device busy",
            shares.busy,
            "%",
            95,
            Better::kHigher,
            "XSched 72-77 %");
  }
  for (const pid_t hog : hogs) {
    ::kill(hog, SIGKILL);
    ::waitpid(hog, nullptr, 0);
  }
}

std::vector<GuardPart> parts() {
  std::vector<GuardPart> all = {{"costs", 15, costs},
                                {"caps", 62, caps},
                                {"pairs", 138, pairs},
                                {"copies", 7, copies},
                                {"many", 22, many},
                                {"latencies entitled", 23, entitled_latency},
                                {"latencies priority", 12, priority_latency},
                                {"busy", 13, busy_host}};
  const std::vector<GuardPart> memory = guard_memory_parts();
  all.insert(all.end(), memory.begin(), memory.end());
  return all;
}

std::vector<Row> run_guard() {
  Rows out;
  std::string why;
  if (!GuardLab::available(why)) {
    std::fprintf(stderr, "[skipped] guard: %s\n", why.c_str());
    return {};
  }
  int left = 0;
  for (const GuardPart& part : parts()) left += wanted(part.name) ? part.seconds : 0;
  for (const GuardPart& part : parts()) {
    // A pattern may name a row of the pairs.
    if (!wanted(part.name) && part.name != "pairs") continue;
    if (wanted(part.name))
      std::fprintf(stderr,
                   "%s: about %d s on a quiet host, %d s with all that follows\n",
                   part.name.c_str(),
                   part.seconds,
                   left);
    part.run(out);
    left -= wanted(part.name) ? part.seconds : 0;
  }
  return out.rows;
}

}  // namespace

void Rows::add(const std::string& what,
               double value,
               const std::string& unit,
               double goal,
               Better better,
               const std::string& peer) {
  Row row;
  row.what = what;
  row.value = value;
  row.unit = unit;
  row.goal = goal;
  row.better = better;
  row.peer = peer;
  row.peer_source = peer.empty() ? PeerSource::kNone : PeerSource::kQuoted;
  std::fprintf(stderr, "  %-78s %9.3f %s\n", what.c_str(), value, unit.c_str());
  rows.push_back(row);
}

Suite guard_suite() {
  return {"guard", "limits inside jobs, on the simulated device", run_guard};
}

}  // namespace tranche::bench
