// SPDX-License-Identifier: Apache-2.0
// `tranche agent`: this machine's devices become capacity of a server, until SIGTERM.
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "agent/agent.hpp"
#include "agent/job_network.hpp"
#include "agent/opencl_scrubber.hpp"
#include "agent/sandbox_try.hpp"
#include "app/agent_commands.hpp"
#include "app/agent_lock.hpp"
#include "app/commands.hpp"
#include "app/guard_run.hpp"
#include "app/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "wire/node_label.hpp"

namespace tranche::app {
namespace {

struct AgentFlags {
  std::string server{}, token{}, pin{}, name{}, data{}, simulated{},
      job_network = "private", soft_sharing = "time-slice", service_address = "127.0.0.1", log_quota{},
      meter_every{}, images{}, volume_encryption = "on", shared_volumes{}, image_runtime = "auto",
      time_slice = "default";
  std::vector<std::string> labels{}, networks_allowed{};
  bool drain_on_exit = false, exclusive_devices = false;
};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::filesystem::path data_folder(const AgentFlags& flags) {
  if (!flags.data.empty()) return std::filesystem::absolute(flags.data);
  if (::geteuid() == 0) return "/var/lib/tranche-agent";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "." : home) / ".local/share/tranche-agent";
}

wire::TextMap labels_of(const std::vector<std::string>& entries) {
  wire::TextMap labels;
  for (const std::string& entry : entries) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0)
      throw cli::WrongValue("--label", "write NAME=VALUE, not " + entry);
    labels.set(entry.substr(0, equals), entry.substr(equals + 1));
  }
  if (const std::string problem = wire::label_problem(labels); !problem.empty())
    throw cli::WrongValue("--label", problem);
  return labels;
}

// A node that was off for longer than its certificate lasts is let in by its operator, as the node it was.
agent::Identity join_again(const AgentFlags& flags,
                           const std::filesystem::path& data,
                           const agent::Identity& known) {
  if (flags.token.empty() || flags.pin.empty()) throw std::runtime_error(agent::run_out_words(known));
  if (!flags.name.empty() && flags.name != known.name)
    throw std::runtime_error(data.string() + " is the folder of the node " + known.name + ": give --name " +
                             known.name + ", or another --data");
  const agent::Identity joined =
      agent::join({.server = known.server, .name = known.name, .token = flags.token, .pin = flags.pin});
  if (joined.node != known.node || joined.authority_pem != known.authority_pem)
    throw std::runtime_error(data.string() +
                             " is the folder of a node of another server: give another --data");
  agent::save_identity(data, joined);
  return joined;
}

agent::Identity identity_of(const AgentFlags& flags, const std::filesystem::path& data) {
  if (auto known = agent::load_identity(data)) {
    if (!flags.server.empty()) known->server = flags.server;
    const bool over = agent::has_run_out(*known, std::chrono::system_clock::now());
    return over ? join_again(flags, data, *known) : *known;
  }
  if (flags.server.empty() || flags.token.empty() || flags.pin.empty())
    throw std::runtime_error(
        "this machine has not joined yet: give --server, --token and --ca-pin, as printed by "
        "tranche node add");
  const std::string name = flags.name.empty() ? host_name() : flags.name;
  const agent::Identity joined =
      agent::join({.server = flags.server, .name = name, .token = flags.token, .pin = flags.pin});
  agent::save_identity(data, joined);
  return joined;
}

void set_job_network(agent::NodeRules& rules, const AgentFlags& flags) {
  for (const std::string& network : flags.networks_allowed)
    if (!agent::is_network(network))
      throw cli::WrongValue("--job-network-allow", "not a network such as 10.1.0.0/16: " + network);
  rules.networks_allowed = flags.networks_allowed;
  if (flags.job_network == "host") rules.network = agent::NetworkKind::kNode;
  if (flags.job_network != "private") return;
  const std::string missing = agent::find_network_tools().missing;
  if (missing.empty()) rules.network = agent::NetworkKind::kPrivate;
  rules.no_network = missing;
}

agent::AgentOptions options_of(const AgentFlags& flags, const std::filesystem::path& data) {
  agent::AgentOptions options;
  options.rules.data = data;
  options.rules.uid_base = agent::default_uid_base();
  set_job_network(options.rules, flags);
  options.rules.sharing_daemons = flags.soft_sharing == "mps";
  options.rules.exclusive_devices = flags.exclusive_devices;
  const std::array<std::string_view, 4> slices{
      "default", "short", "medium", "long"};  // As the driver counts them.
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (flags.time_slice == slices[i]) options.rules.time_slice = static_cast<gpu::TimeSlice>(i);
  options.rules.service_address = flags.service_address;
  if (!flags.images.empty()) options.rules.images = std::filesystem::absolute(flags.images);
  if (!flags.log_quota.empty()) {
    const auto quota = parse_bytes(flags.log_quota);
    if (!quota) throw cli::WrongValue("--log-quota", "not a size: " + flags.log_quota);
    options.rules.log_quota = *quota;
  }
  if (!flags.meter_every.empty()) {
    const auto period = parse_duration(flags.meter_every);
    if (!period || period->count() <= 0) throw cli::WrongValue("--meter-every", "not a length of time");
    options.meter_every = *period;
  }
  options.labels = labels_of(flags.labels);
  options.volume_cipher = agent::VolumeCipher::find();
  if (flags.volume_encryption == "off")
    options.volume_cipher.turn_off("its operator chose --volume-encryption off");
  if (!flags.shared_volumes.empty()) {
    options.shared_volumes = std::filesystem::absolute(flags.shared_volumes);
    if (!std::filesystem::is_directory(options.shared_volumes))
      throw cli::WrongValue("--shared-volumes", "there is no folder " + flags.shared_volumes);
  }
  options.simulated = !flags.simulated.empty();
  options.end_jobs_on_exit = flags.drain_on_exit;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.log = [](const std::string& line) { Log().info(line); };
  return options;
}

void serve(agent::Agent& agent, const sigset_t& signals) {
  std::thread watcher([&] {
    int signal = 0;
    ::sigwait(&signals, &signal);
    if (signal == SIGHUP)
      agent.leave_jobs();  // Whoever started it is gone: the next agent goes on with them.
    agent.stop();
  });
  agent.run();
  ::kill(::getpid(), SIGTERM);  // Wakes the watcher when something else ended the run.
  watcher.join();
}

// Agents of one host do not meet: each numbers its leases from one, and may only end what is its own.
std::string cgroup_parent(const std::filesystem::path& data) {
  struct stat info{};
  return ::stat(data.c_str(), &info) == 0 ? "tranche-" + std::to_string(info.st_ino) : "tranche";
}

void run_agent(const AgentFlags& flags) {
  const std::filesystem::path data = data_folder(flags);
  std::filesystem::create_directories(data);
  const AgentLock lock(data);
  agent::AgentOptions options = options_of(flags, data);
  std::signal(SIGPIPE, SIG_IGN);
  // The spawner is forked before anything here has a thread.
  std::unique_ptr<agent::ShimWorld> world;
  std::unique_ptr<agent::Spawner> spawner;
  if (!options.simulated) {
    world = std::make_unique<agent::ShimWorld>(agent::make_shim_world(cgroup_parent(data)));
    if (flags.image_runtime == "none") world->runtime.clear();
    spawner = std::make_unique<agent::Spawner>(*world);
    options.guard_library = guard_library();
  }
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const agent::Identity identity = identity_of(flags, data);
  if (options.simulated && !identity.name.starts_with("sim-"))
    throw std::runtime_error(
        "a simulated node is named sim-…, so that nobody takes it for a real one: --name sim-" +
        identity.name);
  std::vector<std::unique_ptr<gpu::DevicePort>> ports;
  if (options.simulated) {
    ports.push_back(gpu::open_scripted(flags.simulated, identity.name));
  } else {
    ports = gpu::open_ports();
  }
  auto scrubber = options.simulated ? nullptr : std::make_unique<agent::OpenClScrubber>();
  agent::Agent agent(
      std::move(options), identity, std::move(ports), spawner.get(), world.get(), std::move(scrubber));
  serve(agent, signals);
  if (world) world->cgroups->remove("");  // Unless a job goes on in it.
}

void add_agent(const cli::Command& root) {
  const cli::Command command =
      cli::add_local_command(root,
                             {"agent",
                              "Offer this machine's devices to a server",
                              "tranche agent --server https://HOST:7879 --token JOIN --ca-pin sha256:…"});
  auto flags = std::make_shared<AgentFlags>();
  command.add_option("--server", flags->server, "https://HOST:PORT, at the first start");
  command.add_option("--token", flags->token, "Join token of tranche node add, at the first start");
  command.add_option("--ca-pin", flags->pin, "Fingerprint of the server's authority, at the first start");
  command.add_option("--name", flags->name, "Name of the node; else the host's");
  command.add_option("--data", flags->data, "Where identity, logs and scratch are kept");
  command.add_option(
      "--simulated", flags->simulated, "Script of devices that do not exist; nothing executes");
  command.add_option("--label", flags->labels, "NAME=VALUE, for placement; may be repeated");
  command
      .add_option(
          "--job-network", flags->job_network, "What jobs that ask for a network get: private, none or host")
      .capture_default_str()
      .one_of({"private", "none", "host"});
  command.add_option("--job-network-allow",
                     flags->networks_allowed,
                     "A private network that jobs may reach, e.g. 10.1.0.0/16; may be repeated");
  command
      .add_option(
          "--soft-sharing",
          flags->soft_sharing,
          "How soft slices of NVIDIA devices share: time-slice, or mps (one daemon a tenant and device)")
      .capture_default_str()
      .one_of({"time-slice", "mps"});
  command
      .add_option(
          "--service-address", flags->service_address, "Own address where the gateway reaches services")
      .capture_default_str();
  command.add_option(
      "--images", flags->images, "Folder of the images that jobs may name; else images/ of the data");
  command
      .add_option("--volume-encryption", flags->volume_encryption, "Encrypt new volumes at rest: on or off")
      .capture_default_str()
      .one_of({"on", "off"});
  command
      .add_option("--shared-volumes",
                  flags->shared_volumes,
                  "Folder that every node of a pool mounts: offers the volumes in it")
      .type_name("PATH");
  command
      .add_option("--image-runtime",
                  flags->image_runtime,
                  "Who starts jobs with an image: auto (crun where it is installed), none (the agent itself)")
      .one_of({"auto", "none"})
      .capture_default_str();
  command
      .add_option(
          "--time-slice",
          flags->time_slice,
          "How long a job on a soft slice of an NVIDIA device has it at a time: default, short, medium, long")
      .one_of({"default", "short", "medium", "long"})
      .capture_default_str();
  command.add_flag(
      "--exclusive-devices", flags->exclusive_devices, "Dedicated NVIDIA devices take one process at a time");
  command.add_option("--log-quota", flags->log_quota, "Bytes kept of each output stream, e.g. 64MiB");
  command.add_option("--meter-every", flags->meter_every, "How often use is reported, e.g. 10s");
  command.add_flag(
      "--drain-on-exit", flags->drain_on_exit, "End jobs with the agent, instead of leaving them");
  command.callback([flags] { run_agent(*flags); });
}

}  // namespace

void add_agent_commands(const cli::Command& root, int& status) {
  add_agent(root);
  add_agent_sandbox_command(root, status);
}

}  // namespace tranche::app
