// SPDX-License-Identifier: Apache-2.0
// `tranche sim whatif`: the live engine on a described fleet and workload, shared and dedicated.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

#include "app/sim_commands.hpp"
#include "app/whatif_world.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sim/whatif_html.hpp"

namespace tranche::app {
namespace {

struct WhatIfArguments {
  WhatIfSource source{};
  std::string sharing = "both";
  std::string forecast = "off";
  std::uint32_t prepare_percent = 100;
  std::string warm_up{};
  std::string html_path{};
  double device_hour = 0;
};
using Runs = sim::WhatIfRuns;

std::string rounded(double value, const char* form = "%.1f") {
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::function<void(std::int64_t)> progress_line(std::size_t jobs) {
  if (isatty(STDERR_FILENO) == 0 || jobs == 0) return {};
  return [jobs](std::int64_t ended) {
    if (ended % 100 == 0)
      std::fprintf(
          stderr, "\rrunning ahead %3.0f %%", 100.0 * static_cast<double>(ended) / static_cast<double>(jobs));
  };
}

void print_reports(const Runs& runs) {
  using cli::Align;
  cli::Table table({{"SHARING"},
                    {"FORECAST"},
                    {"BUSY %", Align::kRight},
                    {"HELD %", Align::kRight},
                    {"MEAN WAIT s", Align::kRight},
                    {"P95 s", Align::kRight},
                    {"MAX s", Align::kRight},
                    {"AT PEAK s", Align::kRight},
                    {"FAIR", Align::kRight},
                    {"DONE AFTER h", Align::kRight},
                    {"FLEET h / WORK h", Align::kRight},
                    {"PREEMPTED", Align::kRight},
                    {"REFUSED", Align::kRight},
                    {"UNFINISHED", Align::kRight}});
  for (const auto& [options, report] : runs) {
    table.add({std::string(sim::sharing_name(options.sharing)),
               options.prepare_percent == 0 ? "off" : std::to_string(options.prepare_percent) + " %",
               rounded(report.busy_percent),
               rounded(report.held_percent),
               rounded(report.waits.mean_seconds, "%.0f"),
               std::to_string(report.waits.p95_seconds),
               std::to_string(report.waits.max_seconds),
               rounded(report.peak.mean_seconds, "%.0f"),
               rounded(report.fairness_index, "%.2f"),
               rounded(static_cast<double>(report.makespan_seconds) / 3600.0),
               rounded(report.fleet_hours_per_work_hour, "%.2f"),
               std::to_string(report.preemptions),
               std::to_string(report.refused),
               std::to_string(report.unfinished)});
  }
  std::fputs(table.text().c_str(), stdout);
  const sim::WhatIfReport& first = runs.front().second;
  std::printf("\nsimulated: %lld jobs on %u devices, submitted over %.1f h\n",
              static_cast<long long>(first.jobs),
              first.devices,
              static_cast<double>(first.window_seconds) / 3600.0);
  if (!first.first_refusal.empty()) std::printf("first refusal: %s\n", first.first_refusal.c_str());
}

void run_whatif(const WhatIfArguments& arguments, const cli::GlobalFlags& flags) {
  const cli::Output output = flags.output.empty() ? cli::Output::kTable : cli::parse_output(flags.output);
  std::vector<sim::Sharing> wanted;
  const bool all = arguments.sharing == "all";
  if (all || arguments.sharing == "both" || arguments.sharing == "as-asked")
    wanted.push_back(sim::Sharing::kAsAsked);
  if (all || arguments.sharing == "partitions") wanted.push_back(sim::Sharing::kPartitions);
  if (all || arguments.sharing == "both" || arguments.sharing == "dedicated")
    wanted.push_back(sim::Sharing::kDedicated);
  std::vector<std::uint32_t> percents;
  if (arguments.forecast != "on") percents.push_back(0);
  if (arguments.forecast != "off") percents.push_back(arguments.prepare_percent);
  const auto warm_up = arguments.warm_up.empty() ? Duration{} : parse_duration(arguments.warm_up);
  if (!warm_up)
    throw cli::usage_failure("--warm-up takes a duration such as 7d, not '" + arguments.warm_up + "'");
  const sim::WhatIfWorld world = world_of(arguments.source);
  Runs runs;
  for (const sim::Sharing sharing : wanted) {
    for (const std::uint32_t percent : percents) {
      sim::WhatIfOptions options{
          .sharing = sharing,
          .prepare_percent = percent,
          .warm_up_seconds = std::chrono::floor<std::chrono::seconds>(*warm_up).count(),
          .device_hour = arguments.device_hour,
          .progress = progress_line(world.jobs.size())};
      runs.emplace_back(options, sim::what_if(world, options));
      if (options.progress) std::fputs("\r\033[K", stderr);
    }
  }
  if (!arguments.html_path.empty()) write_page(arguments.html_path, sim::whatif_html(runs));
  if (output != cli::Output::kJson) return print_reports(runs);
  std::puts("[");
  for (std::size_t i = 0; i < runs.size(); ++i)
    std::printf(
        "%s%s\n", sim::what_if_json(runs[i].second, runs[i].first).c_str(), i + 1 < runs.size() ? "," : "");
  std::puts("]");
}

}  // namespace

void add_sim_whatif(const cli::Command& sim, cli::Program& program) {
  const cli::Command command = cli::add_command(
      sim,
      {"whatif",
       "Run the live engine ahead on another fleet, another quota tree or another way of sharing",
       "tranche sim whatif --fleet 8x8xH100-SXM5-80GB --jobs mixed.csv\n"
       "tranche sim whatif --data ~/.local/share/tranche --sharing dedicated\n"
       "tranche sim whatif --fleet 2x8xH100-SXM5-80GB --jobs week.csv --sharing as-asked --forecast both "
       "--warm-up 7d\n"
       "tranche sim whatif --data DATA --last 7d --share acme=4..8 --html week.html\n"
       "tranche sim whatif --data DATA --fleet 2x4xL40S --share acme=4..8 -o json"});
  auto arguments = std::make_shared<WhatIfArguments>();
  command.add_option("--fleet", arguments->source.fleet, "Nodes x devices x model; repeat for a mixed fleet")
      .type_name("FLEET");
  command
      .add_option(
          "--jobs", arguments->source.jobs, "Workload as CSV: submit,duration,tenant,kind,gpus,milli,vram_gb")
      .type_name("FILE");
  command
      .add_option(
          "--data", arguments->source.data, "A server's data folder: its own jobs and nodes are the workload")
      .type_name("FOLDER");
  command
      .add_option(
          "--sharing",
          arguments->sharing,
          "as-asked, dedicated (whole devices for all), partitions (hardware), both of the first, or all")
      .one_of({"as-asked", "dedicated", "partitions", "both", "all"});
  command
      .add_option(
          "--last", arguments->source.last, "Only the jobs of so much time before the end, such as 7d")
      .type_name("DURATION");
  command
      .add_option("--device-hour", arguments->device_hour, "What an hour of a device costs, for the report")
      .type_name("AMOUNT")
      .not_negative();
  command.add_option("--html", arguments->html_path, "Also write a report with charts, one file")
      .type_name("FILE");
  command
      .add_option(
          "--share", arguments->source.shares, "Guaranteed devices of a tenant, and its limit: acme=4..8")
      .type_name("SHARE");
  command
      .add_option("--forecast",
                  arguments->forecast,
                  "on: room is kept for the demand foreseen; off; or both, compared")
      .one_of({"on", "off", "both"})
      .capture_default_str();
  command
      .add_option("--prepare", arguments->prepare_percent, "So much of the demand foreseen, with --forecast")
      .type_name("PERCENT")
      .between(1, 200)
      .capture_default_str();
  command
      .add_option("--warm-up",
                  arguments->warm_up,
                  "Jobs submitted in this time are learned from, and counted nowhere")
      .type_name("DURATION");
  command.callback([arguments, &program] { run_whatif(*arguments, program.flags); });
}

}  // namespace tranche::app
