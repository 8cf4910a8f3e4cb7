// SPDX-License-Identifier: Apache-2.0
// `tranche advise`: what the past says about the fleet, each piece of advice with the run that shows it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/sim_journal.hpp"
#include "cli/command.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sim/advise.hpp"
#include "sim/whatif_csv.hpp"

namespace tranche::app {
namespace {

struct AdviseArguments {
  std::string data{};
  std::string jobs{};
  std::vector<std::string> fleet{};
  std::int64_t slack = 60;
};

void run_advise(const AdviseArguments& arguments, const cli::GlobalFlags& flags) {
  if (arguments.data.empty() == arguments.jobs.empty())
    throw std::invalid_argument("give either --data FOLDER (a server's own past) or --jobs FILE.csv");
  sim::WhatIfWorld world = arguments.data.empty()
                               ? sim::WhatIfWorld{.jobs = sim::read_workload(arguments.jobs)}
                               : journaled_world(arguments.data);
  if (!arguments.fleet.empty()) world.fleet.clear();
  for (const std::string& text : arguments.fleet) world.fleet.push_back(sim::parse_fleet(text));
  if (world.jobs.empty())
    throw std::invalid_argument("no job has run there yet; advice needs a past to look at");
  if (world.fleet.empty())
    throw std::invalid_argument("no node is known there; give --fleet NODESxDEVICESxMODEL");
  const sim::AdviceReport report = sim::advise(world, arguments.slack);
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

void add_advise_command(CLI::App& root, cli::Program& program) {
  CLI::App& command =
      cli::add_command(root,
                       {"advise",
                        "Which devices are not needed, who holds more than he uses, what sharing saves",
                        "tranche advise --data ~/.local/share/tranche\n"
                        "tranche advise --jobs week.csv --fleet 8x8xH100-SXM5-80GB -o json"});
  auto arguments = std::make_shared<AdviseArguments>();
  command.add_option("--data", arguments->data, "A server's data folder: its own past is looked at")
      ->type_name("FOLDER");
  command
      .add_option("--jobs", arguments->jobs, "A workload as CSV instead, as `tranche sim whatif` reads it")
      ->type_name("FILE");
  command
      .add_option("--fleet", arguments->fleet, "Nodes x devices x model, instead of the nodes known there")
      ->type_name("FLEET");
  command.add_option("--slack", arguments->slack, "Seconds that the P95 wait may grow in a smaller fleet")
      ->check(CLI::NonNegativeNumber);
  command.callback([arguments, &program] { run_advise(*arguments, program.flags); });
}

}  // namespace tranche::app
