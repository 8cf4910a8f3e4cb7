// SPDX-License-Identifier: Apache-2.0
// tranche broker, tranche guard run|top: the guard for people, without server or agent.
#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <unistd.h>

#include "app/commands.hpp"
#include "app/guard_change.hpp"
#include "app/guard_run.hpp"
#include "app/guard_top.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "guard/broker.hpp"
#include "guard/broker_context_probe.hpp"

namespace tranche::app {
namespace {

guard::Broker* serving = nullptr;  // NOLINT: what the signal handler stops.

std::uint64_t nanoseconds(const std::string& text) {
  const auto length = parse_duration(text);
  if (!length || length->count() < 0) throw cli::usage_failure("not a length of time: " + text);
  return static_cast<std::uint64_t>(length->count()) * 1000;
}

guard::ShareMode mode_of(const std::string& text) {
  if (text == "cap") return guard::ShareMode::kCap;
  if (text == "fair") return guard::ShareMode::kFair;
  throw cli::usage_failure("mode is cap or fair, not " + text);
}

// It becomes the name of a socket, too.
void check_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (!plain || name.starts_with('.') || name.size() >= guard::kTenantNameMax)
    throw cli::usage_failure("a name has letters, digits, '-', '_' and '.', up to " +
                             std::to_string(guard::kTenantNameMax - 1) + ": " + name);
}

void serve_broker(const std::string& socket, const std::string& linger) {
  guard::BrokerOptions options;
  options.socket_path = socket.empty() ? default_broker_socket() : socket;
  if (!linger.empty()) options.linger_ns = nanoseconds(linger);
  guard::Broker broker(options);
  broker.listen();
  serving = &broker;
  std::signal(SIGTERM, [](int) { serving->stop(); });
  std::signal(SIGINT, [](int) { serving->stop(); });
  std::signal(SIGPIPE, SIG_IGN);
  broker.run();
  serving = nullptr;
}

void add_run(const cli::Command& group, int& exit_code) {
  const cli::Command command =
      cli::add_local_command(group,
                             {"run",
                              "Run a command inside limits",
                              "tranche guard run --vram 2GiB --compute 30% --time 10m -- ./train"});
  struct Texts {
    std::string vram, compute = "100%", mode, time, grace = "30s";
  };
  auto texts = std::make_shared<Texts>();
  auto run = std::make_shared<GuardRun>();
  command.add_option("--vram", texts->vram, "VRAM of each device, e.g. 2GiB").required();
  command.add_option("--compute", texts->compute, "Share of the device's time, e.g. 30%");
  command.add_option("--mode", texts->mode, "cap (a ceiling, the default) or fair (a guaranteed minimum)");
  command.add_option("--priority", run->limits.priority, "Higher goes first at the next kernel");
  command.add_option("--time", texts->time, "Execution time, e.g. 10m");
  command.add_option("--grace", texts->grace, "Time between the checkpoint signal and the end");
  command
      .add_option("--checkpoint-signal", run->checkpoint_signal, "Signal number that asks for a checkpoint")
      .between(1, 64);
  command.add_option("--devices", run->devices, "How many devices the command sees").between(1, 16);
  command.add_option("--name", run->tenant, "Name shown in guard top");
  command.add_option("--socket", run->broker_socket, "The broker's socket");
  command.add_flag("--quiet", run->quiet, "No summary at the end");
  command.add_option("command", run->command, "The command, after --").required();
  command.callback([texts, run, &exit_code] {
    run->limits.vram_bytes = size_of(texts->vram);
    run->limits.share = share_of(texts->compute);
    const bool whole = run->limits.share == guard::kShareWhole && texts->mode.empty();
    run->limits.mode =
        whole ? guard::ShareMode::kUnlimited : mode_of(texts->mode.empty() ? "cap" : texts->mode);
    if (!texts->time.empty()) run->time_ns = nanoseconds(texts->time);
    if (!texts->time.empty() && run->time_ns == 0) throw cli::usage_failure("no time at all: " + texts->time);
    run->grace_ns = std::min(nanoseconds(texts->grace), run->time_ns / 5);
    check_name(run->tenant);
    if (run->tenant.empty()) run->tenant = "run-" + std::to_string(::getpid());
    if (run->broker_socket.empty()) run->broker_socket = default_broker_socket();
    exit_code = guard_run(*run);
  });
}

}  // namespace

void add_guard_commands(const cli::Command& root, cli::Program& program, int& exit_code) {
  const cli::Command broker = cli::add_local_command(root,
                                                     {"broker",
                                                      "Arbitrate this machine's devices between tenants",
                                                      "tranche broker --socket /run/tranche/broker.sock"});
  auto broker_texts = std::make_shared<std::pair<std::string, std::string>>();
  broker.add_option("--socket", broker_texts->first, "Where agents connect");
  broker.add_option("--linger", broker_texts->second, "End after so long without a tenant");
  broker.callback([broker_texts] { serve_broker(broker_texts->first, broker_texts->second); });

  const cli::Command group = cli::add_local_group(root,
                                                  {"guard",
                                                   "Limits inside a job, without server or agent",
                                                   "tranche guard run --vram 2GiB --compute 30% -- ./train"});
  add_run(group, exit_code);
  add_guard_top(group, program);
  const cli::Command context = cli::add_local_command(
      group, {"context-size", "Bytes that a context takes on a device", "tranche guard context-size 0"});
  context.hide();  // Asked by us, before a small tenant is let in.
  auto device = std::make_shared<int>(0);
  context.add_option("device", *device, "Number of the device").required();
  context.callback([device] {
    std::printf("%llu\n", static_cast<unsigned long long>(guard::measure_context(*device)));
    std::fflush(stdout);
    ::_exit(0);  // What drivers do at the end of a program takes longer than all of this.
  });

  add_guard_changes(group);
}

}  // namespace tranche::app
