// SPDX-License-Identifier: Apache-2.0
// Packing quality and speed of the default placement policy, beside FGD on the very same arrivals.
//
// Quality needs the openb traces in ../shared/data/traces/openb; without them only synthetic rows are
// measured. TRANCHE_LONG=1 runs all ten seeds of the protocol instead of three.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <malloc.h>
#include <string>
#include <time.h>
#include <vector>

#include "bench/bench.hpp"
#include "policy/placement_waiting.hpp"
#include "sim/pack_churn.hpp"
#include "sim/pack_consolidate.hpp"
#include "sim/pack_run.hpp"

namespace tranche::bench {
namespace {

using sim::PackPolicy;

std::int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Trace {
  std::string name;
  sim::PackTasks tasks;
};

struct Traces {
  sim::ModelNames models;
  sim::PackNodes nodes;
  std::vector<Trace> traces;
};

Traces read_traces() {
  const std::filesystem::path folder = "../shared/data/traces/openb";
  Traces out;
  if (!std::filesystem::exists(folder)) return out;
  out.nodes = sim::read_nodes(folder / "openb_node_list_gpu_node.csv.gz", out.models);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const std::string head = "openb_pod_list_";
    if (name.rfind(head, 0) == 0) names.push_back(name.substr(head.size(), name.find('.') - head.size()));
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    out.traces.push_back(
        {name, sim::read_tasks(folder / ("openb_pod_list_" + name + ".csv.gz"), out.models)});
  return out;
}

std::uint64_t last_seed() {
  const char* text = std::getenv("TRANCHE_LONG");
  return text != nullptr && std::string(text) == "1" ? 51 : 44;
}

template <class Run>
double mean_allocation(PackPolicy policy, const Run& run) {
  double sum = 0;
  for (std::uint64_t seed = 42; seed <= last_seed(); ++seed) {
    sim::PackOptions options;
    options.policy = policy;
    options.seed = seed;
    sum += run(options).allocation_at_100;
  }
  return sum / static_cast<double>(last_seed() - 41);
}

struct Gains {
  std::vector<double> values;
  std::vector<std::string> names;
  void add(const std::string& name, double gain) {
    values.push_back(gain);
    names.push_back(name);
    std::fprintf(stderr, "  %-12s %+.2f\n", name.c_str(), gain);
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  [[nodiscard]] double least() const { return *std::min_element(values.begin(), values.end()); }
};

void add_gain_rows(std::vector<Row>& rows, const std::string& what, const Gains& gains, double mean_goal) {
  rows.push_back({what + ", mean over traces",
                  gains.mean(),
                  "points",
                  mean_goal,
                  Better::kHigher,
                  "",
                  PeerSource::kNone});
  rows.push_back(
      {what + ", worst trace", gains.least(), "points", 0.0001, Better::kHigher, "", PeerSource::kNone});
}

void one_pass_rows(const Traces& input, std::vector<Row>& rows) {
  Gains gains;
  Gains moved;
  for (const Trace& trace : input.traces) {
    const auto run = [&](const sim::PackOptions& options) {
      return run_pack(input.nodes, trace.tasks, options);
    };
    const double ours = mean_allocation(PackPolicy::kDefault, run);
    const double theirs = mean_allocation(PackPolicy::kFgd, run);
    gains.add(trace.name, ours - theirs);
    const double with_moves = mean_allocation(PackPolicy::kDefault, [&](const sim::PackOptions& options) {
      return run_consolidated(input.nodes, trace.tasks, options);
    });
    moved.add(trace.name + " moves", with_moves - ours);
    if (trace.name != "default") continue;
    rows.push_back({"packing, openb default, allocated at 100 % requested",
                    ours,
                    "%",
                    95.2,
                    Better::kHigher,
                    "FGD 95.23, best fit 92.86, LP bound 96.9",
                    PeerSource::kQuoted});
    rows.push_back(
        {"the same, FGD on the same arrivals", theirs, "%", 0, Better::kHigher, "", PeerSource::kNone});
  }
  add_gain_rows(rows, "packing, gain over FGD", gains, 1.0);
  add_gain_rows(rows, "packing with consolidation, gain over without", moved, 0);
}

void churn_rows(const Traces& input, std::vector<Row>& rows) {
  Gains gains;
  Gains drifting;
  for (std::size_t i = 0; i < input.traces.size(); ++i) {
    const Trace& trace = input.traces[i];
    const Trace& other = input.traces[(i + 7) % input.traces.size()];
    const auto gain = [&](const sim::ChurnOptions& churn) {
      const auto run = [&](const sim::PackOptions& options) {
        return run_churn(input.nodes, trace.tasks, options, churn);
      };
      return mean_allocation(PackPolicy::kDefault, run) - mean_allocation(PackPolicy::kFgd, run);
    };
    gains.add(trace.name, gain({}));
    drifting.add(trace.name + " to " + other.name, gain({1.2, 30000, &other.tasks}));
  }
  add_gain_rows(rows, "with departures at load 1.2, gain over FGD", gains, 0.0001);
  add_gain_rows(rows, "the same, mix drifting half-way", drifting, 0.0001);
}

void speed_row(const Traces& input, int times, std::vector<Row>& rows) {
  const auto trace = std::find_if(
      input.traces.begin(), input.traces.end(), [](const Trace& one) { return one.name == "default"; });
  if (trace == input.traces.end()) return;
  const sim::PackNodes nodes = replicated(input.nodes, times);
  const sim::PackTasks tasks = replicated(trace->tasks, times);
  sim::PackOptions options;
  options.nanoseconds = thread_nanoseconds;
  const sim::PackRun run = run_pack(nodes, tasks, options);
  const std::string size = std::to_string(nodes.nodes.size()) + " nodes, " +
                           std::to_string(nodes.capacity_milli / policy::kDeviceMilli) + " devices";
  rows.push_back({"placement, " + size,
                  static_cast<double>(run.latency.count()) / run.latency.total_seconds(),
                  "decisions/s",
                  30000,
                  Better::kHigher,
                  "Slurm 124/s on 1,200 nodes",
                  PeerSource::kQuoted});
  rows.push_back({"the same, p99 of a decision",
                  run.latency.quantile_microseconds(0.99),
                  "us",
                  times > 1 ? 250.0 : 0.0,
                  Better::kLower,
                  "",
                  PeerSource::kNone});
  rows.push_back({"the same, allocated at 100 % requested",
                  run.allocation_at_100,
                  "%",
                  0,
                  Better::kHigher,
                  "",
                  PeerSource::kNone});
}

// 20,000 nodes, 100,000 devices, all busy; 100,000 jobs of 500 kinds wait; 50 nodes free something.
policy::Fleet busy_fleet(std::vector<policy::Placement>& placements) {
  policy::Fleet fleet;
  for (int i = 0; i < 20000; ++i)
    fleet.add_node({.cpu_milli = 64000, .memory_mib = 262144, .devices = 5, .model = i % 7});
  for (policy::NodeIndex node = 0; node < 20000; ++node) {
    for (int device = 0; device < 5; ++device) {
      const policy::Shape whole{.cpu_milli = 8000, .memory_mib = 1024, .devices = 1, .milli = 1000};
      placements.push_back(fleet.on_device(node, whole, device));
      fleet.take(whole, placements.back());
    }
  }
  return fleet;
}

void waiting_row(std::vector<Row>& rows) {
  std::vector<policy::Placement> placements;
  policy::Fleet fleet = busy_fleet(placements);
  policy::WaitingKinds waiting;
  std::vector<policy::KindIndex> queue;
  for (int job = 0; job < 100000; ++job) {
    const auto kind = static_cast<policy::KindIndex>(job % 500);
    waiting.wait(kind,
                 {.cpu_milli = 1000 * (1 + static_cast<int>(kind) % 40),
                  .devices = 1 + static_cast<int>(kind) % 4,
                  .milli = 1000,
                  .models = 1ULL << (kind % 7)});
    queue.push_back(kind);
    waiting.refused(kind);
  }
  const std::int64_t before = thread_nanoseconds();
  for (std::size_t i = 0; i < 50; ++i) {
    const policy::Placement& gone = placements[i * 977];
    fleet.release({.cpu_milli = 8000, .memory_mib = 1024, .devices = 1, .milli = 1000}, gone);
    waiting.node_freed(gone.node);
  }
  waiting.revive(fleet);
  std::size_t offered = 0;
  for (const policy::KindIndex kind : queue) offered += waiting.may_fit(kind) ? 1U : 0U;
  const double milliseconds = static_cast<double>(thread_nanoseconds() - before) * 1e-6;
  rows.push_back(
      {"pass over 100,000 waiting jobs, 50 of 20,000 nodes changed, " + std::to_string(offered) + " may fit",
       milliseconds,
       "ms",
       100,
       Better::kLower,
       "Slurm: a backfill cycle took 59 s at depth 8,543",
       PeerSource::kQuoted});
}

// What fleet, index, memo and heaps hold after a fleet of 100,000 devices has been filled.
void memory_row(const Traces& input, std::vector<Row>& rows) {
  const auto trace = std::find_if(
      input.traces.begin(), input.traces.end(), [](const Trace& one) { return one.name == "default"; });
  if (trace == input.traces.end()) return;
  const sim::PackNodes nodes = replicated(input.nodes, 16);
  const sim::PackTasks tasks = replicated(trace->tasks, 16);
  const sim::Arrivals arrivals = draw_arrivals(nodes, tasks, 42, 1.3);
  const auto before = mallinfo2();
  const auto placer = make_placer(nodes, tasks, arrivals, {});
  double slices = 0;
  for (const std::uint32_t kind : arrivals.kinds)
    if (placer->place(kind)) slices += placer->shape(kind).devices;
  const auto after = mallinfo2();
  const auto held = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
  rows.push_back({"memory of the placement state, full fleet of 99,392 devices",
                  held / slices,
                  "bytes/slice",
                  1024,
                  Better::kLower,
                  "",
                  PeerSource::kNone});
}

std::vector<Row> run_placement() {
  std::vector<Row> rows;
  const Traces input = read_traces();
  if (input.traces.empty()) {
    std::fprintf(stderr, "[skipped] rows on traces: ../shared/data/traces/openb is absent\n");
  } else {
    speed_row(input, 1, rows);
    speed_row(input, 16, rows);
    memory_row(input, rows);
    one_pass_rows(input, rows);
    churn_rows(input, rows);
  }
  waiting_row(rows);
  return rows;
}

}  // namespace

Suite placement_suite() {
  return {"placement", "packing quality and speed on the openb traces", run_placement};
}

}  // namespace tranche::bench
