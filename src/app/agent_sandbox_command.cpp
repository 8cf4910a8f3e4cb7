// SPDX-License-Identifier: Apache-2.0
// `tranche agent-sandbox`: one command in the sandbox that jobs get, on this machine.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "agent/sandbox_try.hpp"
#include "app/agent_commands.hpp"
#include "app/guard_run.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"

namespace tranche::app {
namespace {

struct Flags {
  std::string data{}, memory{}, disk{}, time{}, setup{}, command{}, cpus{}, logs{}, images{}, image{};
  std::uint64_t processes = 4096;
  std::uint64_t files = 1'000'000;
  std::vector<std::string> envs{};
  std::string network{}, before{}, runtime = "auto";
  std::vector<std::string> networks_allowed{};
};

Bytes size_of(const std::string& text) {
  const auto size = parse_bytes(text);
  if (!size) throw std::runtime_error("not a size: " + text);
  return *size;
}

int run(const Flags& flags) {
  agent::SandboxTry wanted;
  wanted.rules.data = std::filesystem::absolute(flags.data);
  std::filesystem::create_directories(wanted.rules.data);
  wanted.rules.uid_base = agent::default_uid_base();
  if (flags.network == "host") wanted.rules.network = agent::NetworkKind::kNode;
  if (flags.network == "private") wanted.rules.network = agent::NetworkKind::kPrivate;
  wanted.rules.networks_allowed = flags.networks_allowed;
  wanted.rules.processes_max = flags.processes;
  wanted.rules.files_max = flags.files;
  if (!flags.logs.empty()) wanted.rules.log_quota = size_of(flags.logs);
  wanted.guard_library = guard_library();
  wanted.grant.lease = {static_cast<std::uint64_t>(::getpid())};
  wanted.grant.job = {static_cast<std::uint64_t>(::getpid())};
  wanted.grant.tenant = {static_cast<std::uint64_t>(::getpid())};
  wanted.before = flags.before;
  wanted.container_runtime = flags.runtime == "auto";
  wire::JobSpec& spec = wanted.grant.spec;
  spec.setup = flags.setup;
  spec.run = flags.command;
  spec.image = flags.image;
  if (!flags.images.empty()) wanted.rules.images = std::filesystem::absolute(flags.images);
  if (!flags.network.empty()) spec.network = wire::Network::kInternet;
  if (!flags.memory.empty()) spec.resources.memory.max = size_of(flags.memory);
  if (!flags.disk.empty()) spec.resources.disk = size_of(flags.disk);
  if (!flags.cpus.empty())
    spec.resources.cpus.milli_max = static_cast<std::uint32_t>(std::stod(flags.cpus) * 1000);
  if (!flags.time.empty()) spec.limits.time = parse_duration(flags.time);
  for (const std::string& entry : flags.envs) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) spec.envs.set(entry.substr(0, equals), entry.substr(equals + 1));
  }
  const agent::SandboxOutcome outcome = agent::try_sandbox(wanted);
  std::fwrite(outcome.output.data(), 1, outcome.output.size(), stdout);
  std::fwrite(outcome.errors.data(), 1, outcome.errors.size(), stderr);
  std::fwrite(outcome.platform.data(), 1, outcome.platform.size(), stderr);
  if (!outcome.message.empty()) std::fprintf(stderr, "tranche: ended: %s\n", outcome.message.c_str());
  std::fprintf(stderr, "tranche: scratch wiped: %s\n", outcome.scratch_wiped ? "yes" : "no");
  return outcome.exit_code;
}

}  // namespace

void add_agent_sandbox_command(const cli::Command& root, int& status) {
  const cli::Command command =
      cli::add_local_command(root,
                             {"agent-sandbox",
                              "Run a command in the sandbox that jobs get",
                              "tranche agent-sandbox --data /var/tmp/try 'id; ls /'"});
  command.hide();  // For operators and tests.
  auto flags = std::make_shared<Flags>();
  command.add_option("--data", flags->data, "Folder for scratch").required();
  command.add_option("--memory", flags->memory, "Memory limit");
  command.add_option("--disk", flags->disk, "Scratch limit");
  command.add_option("--images", flags->images, "Folder of images");
  command.add_option("--image", flags->image, "Image by its name in that folder");
  command.add_option("--cpus", flags->cpus, "CPUs");
  command.add_option("--time", flags->time, "Time limit");
  command.add_option("--setup", flags->setup, "Setup step");
  command.add_option("--processes", flags->processes, "Process limit");
  command.add_option("--files", flags->files, "File limit");
  command.add_option("--logs", flags->logs, "Quota of each output stream");
  command.add_option("--env", flags->envs, "NAME=VALUE");
  command.add_option("--job-network", flags->network, "With a network: private or host")
      .one_of({"private", "host"});
  command.add_option("--job-network-allow", flags->networks_allowed, "A private network that it may reach");
  command.add_option("--image-runtime", flags->runtime, "Start images through crun: auto or none")
      .one_of({"auto", "none"});
  command.add_option("--before", flags->before, "Shell text of a job of the same tenant that runs first");
  command.add_option("command", flags->command, "Shell text").required();
  command.callback([flags, &status] { status = run(*flags); });
}

}  // namespace tranche::app
