// SPDX-License-Identifier: Apache-2.0
// `tranche sim pack`: how much of a fleet can be filled with the jobs of a trace, by which policy.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <time.h>
#include <unistd.h>

#include "app/sim_commands.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sim/pack_html.hpp"
#include "sim/pack_report.hpp"

namespace tranche::app {
namespace {

struct PackArguments {
  sim::PackTrial trial;
  std::string seeds = "42-51";
  std::string dump;
  std::string html_path;
};

// CPU time of this thread: what a decision costs, not what the machine was busy with beside it.
std::int64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

void write_decision(std::FILE* file,
                    const std::string& policy,
                    std::uint64_t seed,
                    const sim::PackDecision& made) {
  std::fprintf(file,
               "%s,%llu,%llu,%lld,%lld,%d,%d,%s,%d\n",
               policy.c_str(),
               static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(made.arrival),
               static_cast<long long>(made.shape->cpu_milli),
               static_cast<long long>(made.shape->memory_mib),
               made.shape->devices,
               made.shape->milli,
               made.node != nullptr ? made.node->c_str() : "-",
               made.device);
}

void run(const PackArguments& arguments, const cli::GlobalFlags& flags) {
  sim::PackHooks hooks;
  hooks.nanoseconds = thread_nanoseconds;
  const bool terminal = !flags.quiet && isatty(STDERR_FILENO) != 0;
  if (terminal)
    hooks.progress = [](const std::string& line) { std::fprintf(stderr, "\r\033[K%s", line.c_str()); };
  File dump(nullptr, std::fclose);
  if (!arguments.dump.empty()) {
    dump.reset(std::fopen(arguments.dump.c_str(), "w"));
    if (!dump) throw std::runtime_error(arguments.dump + ": cannot be written");
    hooks.watch = [&](std::uint64_t seed, const sim::PackDecision& made) {
      write_decision(dump.get(), arguments.trial.policy, seed, made);
    };
  }
  const sim::PackReport report = sim::run_trial(arguments.trial, hooks);
  if (terminal) std::fputs("\r\033[K", stderr);
  if (!arguments.html_path.empty()) write_page(arguments.html_path, sim::pack_html(report));
  const bool json = !flags.output.empty() && cli::parse_output(flags.output) == cli::Output::kJson;
  std::fputs((json ? sim::report_json(report) : sim::report_text(report)).c_str(), stdout);
}

std::string check_seeds(const std::string& text) {
  return sim::parse_seeds(text) ? "" : "seeds are a number or a range such as 42-51";
}

std::string check_policy(const std::string& text) {
  return sim::parse_pack_policy(text) ? ""
                                      : "'" + text + "' is none of " + std::string(sim::pack_policy_names());
}

}  // namespace

void add_sim_pack(const cli::Command& sim, cli::Program& program) {
  auto arguments = std::make_shared<PackArguments>();
  sim::PackTrial& trial = arguments->trial;
  const cli::Command pack = cli::add_command(
      sim,
      {"pack",
       "Fill a fleet with the jobs of a trace (openb layout)",
       "tranche sim pack --nodes nodes.csv.gz --tasks tasks.csv.gz --policy default --seeds 42-51 -o json"});
  pack.add_option(
          "--nodes", trial.nodes_path, "Nodes: sn, cpu_milli, memory_mib, gpu, model (.csv or .csv.gz)")
      .required();
  pack.add_option("--tasks", trial.tasks_path, "Tasks: cpu_milli, memory_mib, num_gpu, gpu_milli, [gpu_spec]")
      .required();
  pack.add_option("--policy", trial.policy, std::string(sim::pack_policy_names())).checked_by(check_policy);
  pack.add_option("--seeds", arguments->seeds, "Orders of arrival, one run each").checked_by(check_seeds);
  pack.add_option("--ratio", trial.ratio, "Compute requested in all, over the fleet's").between(0.01, 100.0);
  const cli::Option consolidate = pack.add_flag(
      "--consolidate", trial.consolidate, "Hold arrivals in a short queue, move running tasks to make room");
  const cli::Option churn =
      pack.add_option("--churn", trial.churn, "With departures, at this offered load (1.2 = 120 %)")
          .between(0.01, 100.0);
  pack.add_option("--arrivals", trial.arrivals, "Arrivals of a run with departures")
      .between(2, 100'000'000)
      .needs(churn);
  const cli::Option drift =
      pack.add_option("--drift", trial.drift_path, "The mix turns into that of this file half-way");
  consolidate.excludes(churn).excludes(drift);
  pack.add_option("--replicate", trial.replicate, "Fleet and tasks so many times over").between(1, 1000);
  pack.add_option("--html", arguments->html_path, "Also write a report with charts, one file")
      .type_name("FILE");
  pack.add_option("--dump", arguments->dump, "Write every decision to this file (one-pass runs)");
  pack.callback([arguments, &program] {
    const auto seeds = sim::parse_seeds(arguments->seeds);
    arguments->trial.first_seed = seeds->first;
    arguments->trial.last_seed = seeds->second;
    run(*arguments, program.flags);
  });
}

}  // namespace tranche::app
