// SPDX-License-Identifier: Apache-2.0
// `tranche sim replay`: a trace of jobs on a cluster behind walls, in one pool, or with lending.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <unistd.h>

#include "app/sim_commands.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sim/csv.hpp"
#include "sim/replay.hpp"
#include "sim/replay_forecast.hpp"
#include "sim/replay_html.hpp"

namespace tranche::app {
namespace {

struct ReplayArguments {
  sim::TraceSource source;
  std::string mode = "lending";
  std::string html_path;
  bool forecast = false;
  std::int32_t forecast_runs = 20;
};

std::string seconds_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

std::string decimal_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// A line that is rewritten in place, only where a person looks.
std::function<void(sim::Seconds)> progress_line(const sim::ReplayTrace& trace) {
  if (isatty(STDERR_FILENO) == 0) return {};
  const sim::Seconds first = trace.jobs.front().submit, last = trace.jobs.back().submit;
  return [=](sim::Seconds now) {
    const double done =
        last > first ? static_cast<double>(now - first) / static_cast<double>(last - first) : 1;
    std::fprintf(stderr, "\rreplaying %3.0f %%", 100 * std::min(1.0, done));
  };
}

void print_table(const sim::ReplayTrace& trace, const sim::ReplayReport& report, sim::ReplayMode mode) {
  using cli::Align;
  cli::Table table({{"POOL"},
                    {"GPUS", Align::kRight},
                    {"JOBS", Align::kRight},
                    {"NEVER", Align::kRight},
                    {"MEAN WAIT s", Align::kRight},
                    {"P95 s", Align::kRight},
                    {"MAX s", Align::kRight}});
  for (const sim::PoolReport& pool : report.by_pool) {
    table.add({pool.pool,
               std::to_string(pool.gpus),
               std::to_string(pool.jobs),
               std::to_string(pool.never_able_to_run),
               seconds_text(pool.mean_wait_seconds),
               std::to_string(pool.p95_wait_seconds),
               std::to_string(pool.max_wait_seconds)});
  }
  table.add({"all",
             std::to_string(report.gpus),
             std::to_string(report.jobs),
             std::to_string(report.never_able_to_run),
             seconds_text(report.mean_wait_seconds),
             std::to_string(report.p95_wait_seconds),
             std::to_string(report.max_wait_seconds)});
  std::fputs(table.text().c_str(), stdout);
  std::printf("\nsimulated: mode %s, %.1f %% of the devices allocated, mean completion %.0f s\n",
              std::string(sim::replay_mode_name(mode)).c_str(),
              report.allocation_percent,
              report.mean_completion_seconds);
  if (mode == sim::ReplayMode::kLending || mode == sim::ReplayMode::kEngine) {
    std::printf(
        "%lld jobs within their guarantee at submission, %lld of them started after more than %lld s\n",
        static_cast<long long>(report.entitled_jobs),
        static_cast<long long>(report.late_entitled_starts),
        static_cast<long long>(sim::kEntitledStartWithin));
    std::printf("%lld preemptions (%lld loans ended, %lld protected jobs moved); %s GPU-hours lost, %s %%\n",
                static_cast<long long>(report.preemptions),
                static_cast<long long>(report.loan_ends),
                static_cast<long long>(report.moves),
                decimal_text(report.lost_gpu_hours).c_str(),
                decimal_text(report.lost_percent).c_str());
  }
  if (trace.without_pool > 0) {
    std::printf("%lld jobs of pools that the pools file does not name were left out\n",
                static_cast<long long>(trace.without_pool));
  }
}

// Processor time: how busy the rest of the machine is has no place in the figure.
double cpu_milliseconds() {
  return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Lending with a start time told to everybody who waits.
void run_forecast(const ReplayArguments& arguments, const sim::ReplayTrace& trace, cli::Output output) {
  if (arguments.mode != "lending") throw std::invalid_argument("--forecast goes with --mode lending");
  sim::ForecastOptions options;
  options.runs = arguments.forecast_runs;
  options.progress = progress_line(trace);
  options.milliseconds = cpu_milliseconds;
  const sim::ForecastReport report = sim::replay_with_forecasts(trace, options).report;
  if (options.progress) std::fputs("\r\033[K", stderr);
  if (output == cli::Output::kJson) {
    std::puts(sim::forecast_json(report).c_str());
    return;
  }
  std::printf("simulated: %lld start times told to jobs that had to wait\n",
              static_cast<long long>(report.forecasts));
  std::printf("%.1f %% started by their P90 (worst day %.1f %%), median error of the P50 %.0f s\n",
              report.started_by_p90_percent,
              report.worst_day_percent,
              report.median_error_seconds);
  std::printf(
      "%.2f ms of processor time each, p99 %.2f ms\n", report.mean_milliseconds, report.p99_milliseconds);
}

void run_replay(const ReplayArguments& arguments, const cli::GlobalFlags& flags) {
  const auto mode = sim::parse_replay_mode(arguments.mode);
  if (!mode)
    throw std::invalid_argument("--mode takes walls, pool, lending or engine, not '" + arguments.mode + "'");
  const cli::Output output = flags.output.empty() ? cli::Output::kTable : cli::parse_output(flags.output);
  const sim::ReplayTrace trace = sim::read_trace(arguments.source);
  if (arguments.forecast) return run_forecast(arguments, trace, output);
  sim::ReplayOptions options;
  options.mode = *mode;
  options.progress = progress_line(trace);
  const sim::ReplayRun run = sim::replay(trace, options);
  const sim::ReplayReport report = sim::summarise(trace, run);
  if (options.progress) std::fputs("\r\033[K", stderr);
  if (!arguments.html_path.empty())
    write_page(arguments.html_path, sim::replay_html(trace, run, report, *mode));
  if (output == cli::Output::kJson) {
    std::puts(sim::replay_json(report, *mode).c_str());
  } else {
    print_table(trace, report, *mode);
  }
}

}  // namespace

void add_sim_replay(const cli::Command& sim, cli::Program& program) {
  auto arguments = std::make_shared<ReplayArguments>();
  const cli::Command replay = cli::add_command(
      sim,
      {"replay",
       "Replay a trace of jobs: how long would everybody wait?",
       "tranche sim replay --jobs jobs.csv.gz --pools pools.csv --shrink 4 --mode lending -o json"});
  replay.add_option("--jobs", arguments->source.jobs_path, "CSV or CSV.gz: submit,duration,gpus,vc (seconds)")
      .required();
  replay.add_option("--pools", arguments->source.pools_path, "CSV: vc,nodes[,gpus_per_node]").required();
  replay.add_option("--shrink", arguments->source.shrink, "Divide the nodes of every pool, one at least")
      .between(1, 1'000'000);
  replay.add_option("--mode", arguments->mode, "walls, pool or lending; engine: the server's own, slower")
      .one_of({"walls", "pool", "lending", "engine"});
  replay.add_option("--from", arguments->source.from, "First submission taken, in seconds of the trace");
  replay.add_option("--to", arguments->source.to, "Last submission taken");
  replay.add_option("--html", arguments->html_path, "Also write a report with charts, one file")
      .type_name("FILE");
  replay.add_flag(
      "--forecast", arguments->forecast, "Tell every waiting job its start, and report the errors");
  replay.add_option("--forecast-runs", arguments->forecast_runs, "Runs ahead for one forecast")
      .between(1, 1000);
  replay.callback([arguments, &program] { run_replay(*arguments, program.flags); });
}

}  // namespace tranche::app
