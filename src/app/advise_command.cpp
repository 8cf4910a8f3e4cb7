// SPDX-License-Identifier: Apache-2.0
// `tranche advise`: what the past says about the fleet, each piece of advice with the run that shows it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/whatif_world.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sim/advise.hpp"

namespace tranche::app {
namespace {

struct AdviseArguments {
  WhatIfSource source{};
  std::int64_t slack = 60;
};

void run_advise(const AdviseArguments& arguments, const cli::GlobalFlags& flags) {
  const sim::AdviceReport report = sim::advise(world_of(arguments.source), arguments.slack);
  if (!flags.output.empty() && cli::parse_output(flags.output) == cli::Output::kJson) {
    std::puts(sim::advice_json(report).c_str());
    return;
  }
  std::printf(
      "%lld jobs on %u devices: %.1f %% of the device time at work, %.1f %% held, P95 wait %lld s (run "
      "ahead, not measured)\n",
      static_cast<long long>(report.now.jobs),
      report.now.devices,
      report.now.busy_percent,
      report.now.held_percent,
      static_cast<long long>(report.now.waits.p95_seconds));
  for (const sim::Advice& advice : report.advice) {
    std::printf("\n- %s\n  %s\n", advice.what.c_str(), advice.evidence.c_str());
    if (advice.saves_device_hours_a_day > 0)
      std::printf("  saves %.1f device-hours a day\n", advice.saves_device_hours_a_day);
  }
  if (report.advice.empty()) std::puts("\nnothing to advise: the fleet is as small as its waits allow");
}

}  // namespace

void add_advise_command(const cli::Command& root, cli::Program& program) {
  const cli::Command command = cli::add_command(
      root,
      {"advise",
       "Which devices are under-used, which sharing or partitions would serve, what that saves",
       "tranche advise --data ~/.local/share/tranche\n"
       "tranche advise --jobs week.csv --fleet 8x8xH100-SXM5-80GB -o json"});
  auto arguments = std::make_shared<AdviseArguments>();
  command.add_option("--data", arguments->source.data, "A server's data folder: its own past is looked at")
      .type_name("FOLDER");
  command
      .add_option(
          "--jobs", arguments->source.jobs, "A workload as CSV instead, as `tranche sim whatif` reads it")
      .type_name("FILE");
  command
      .add_option(
          "--fleet", arguments->source.fleet, "Nodes x devices x model, instead of the nodes known there")
      .type_name("FLEET");
  command
      .add_option(
          "--last", arguments->source.last, "Only the jobs of so much time before the end, such as 7d")
      .type_name("DURATION");
  command.add_option("--slack", arguments->slack, "Seconds that the P95 wait may grow in a smaller fleet")
      .not_negative();
  command.callback([arguments, &program] { run_advise(*arguments, program.flags); });
}

}  // namespace tranche::app
