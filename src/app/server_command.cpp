// SPDX-License-Identifier: Apache-2.0
// `tranche server`: the control plane on one data folder, until SIGTERM. `tranche up`: the same for one
// machine, with sensible places for everything.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sodium.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "api/api.hpp"
#include "app/commands.hpp"
#include "app/embedded_agent.hpp"
#include "app/founding.hpp"
#include "app/log.hpp"
#include "app/server_doors.hpp"
#include "app/server_files.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "gateway/gateway.hpp"
#include "journal/verify.hpp"
#include "net/server.hpp"
#include "server/agent_hub.hpp"
#include "server/log_store.hpp"
#include "server/loop.hpp"

namespace tranche::app {
namespace {

struct ServerFlags {
  std::filesystem::path data{};
  ServerDoors doors{};
  bool with_agent = false;  // `tranche up`: this machine is its first node.
  std::filesystem::path port_file{};
  std::filesystem::path console{};
  std::string operator_name = "operator";
  std::uint64_t ballast_mib = 16;
  std::uint64_t snapshot_every = 100'000;
  std::string heartbeat = "5s", lease = "30s", lease_grace = "10s";
  std::string certificate_life = "24h";
  std::string log_retention = "720h";
  std::string carry = "16GiB";
  std::string acceptance{};  // Empty: as the policy in force says.
};

// SIGTERM and SIGINT are taken by the main thread alone; everything else inherits the blocked mask.
sigset_t block_signals() {
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return set;
}

void wait_for_signal(const sigset_t& set,
                     api::Api& api,
                     server::AgentHub& hub,
                     const std::function<void()>& hourly,
                     const std::atomic<bool>& ended) {
  constexpr timespec kPulse{.tv_sec = 1, .tv_nsec = 0};
  constexpr int kApiEvery = 5;
  constexpr int kHour = 3600;
  for (int pulse = 0; !ended; ++pulse) {
    if (sigtimedwait(&set, nullptr, &kPulse) > 0) return;
    hub.pulse();
    if (pulse % kApiEvery == 0) api.pulse();
    if (pulse % kHour == 0) hourly();
  }
}

// The embedded agent is invited in the operator's name; one that has joined before needs no invitation.
EmbeddedAgentOptions invite_this_machine(server::Loop& loop,
                                         const ServerFlags& flags,
                                         const api::AgentAddress& where,
                                         const server::HubOptions& hub) {
  EmbeddedAgentOptions options{
      .data = flags.data / "agent", .server = where.url, .name = local_node_name(), .ca_pin = where.ca_pin};
  if (has_joined(options.data))
    renew_if_run_out(options.data, *hub.authority, hub.certificate_life);
  else
    options.token = invite_node(loop, flags.data, options.name);
  return options;
}

// The start checked the snapshot and the tail; the rest is checked beside the service, which ends when it is
// bad.
class BackgroundVerification {
 public:
  BackgroundVerification(const server::Loop& loop, std::function<void(std::string)> on_bad)
      : thread_([this, &loop, on_bad = std::move(on_bad)] {
          const auto found = journal::verify(loop.store(), 1, {.cancel = &cancel_});
          if (found.outcome == journal::Verification::Outcome::kBad) {
            on_bad("record " + std::to_string(found.first_bad) +
                   " of the journal is not what was written: " + found.why);
          }
        }) {}
  ~BackgroundVerification() {
    cancel_ = true;
    thread_.join();
  }
  BackgroundVerification(const BackgroundVerification&) = delete;
  BackgroundVerification& operator=(const BackgroundVerification&) = delete;

 private:
  std::atomic<bool> cancel_ = false;
  std::thread thread_;
};

Duration duration_of(const std::string& flag, const std::string& given) {
  const auto duration = parse_duration(given);
  if (!duration || *duration <= Duration{})
    throw cli::WrongValue(flag, "'" + given + "' is no duration; write for example 30s");
  return *duration;
}

std::uint64_t bytes_of(const std::string& flag, const std::string& given) {
  const auto bytes = parse_bytes(given);
  if (!bytes || bytes->count < 0)
    throw cli::WrongValue(flag, "'" + given + "' is no size; write for example 16GiB");
  return static_cast<std::uint64_t>(bytes->count);
}

server::LoopOptions loop_options(const ServerFlags& flags,
                                 const Log& log,
                                 std::function<void(const std::string&)> fatal) {
  server::LoopOptions options{.folder = flags.data, .snapshot_every = flags.snapshot_every};
  options.reserve.ballast_bytes = flags.ballast_mib << 20U;
  options.clock = wall_clock;
  options.seed = randombytes_random() * 0x1'0000'0001ULL;
  options.log = [&log](const std::string& line) { log.info(line); };
  options.on_fatal = std::move(fatal);
  return options;
}

// Short, because one that was stolen is worth something for no longer; but renewed at half of it.
std::chrono::seconds certificate_life_of(const ServerFlags& flags) {
  constexpr auto kLeast = std::chrono::seconds(2), kMost = std::chrono::seconds(std::chrono::hours(24));
  const auto life =
      std::chrono::floor<std::chrono::seconds>(duration_of("--certificate-life", flags.certificate_life));
  if (life < kLeast || life > kMost)
    throw cli::WrongValue("--certificate-life", "'" + flags.certificate_life + "' is not between 2s and 24h");
  return life;
}

server::HubOptions hub_options(const ServerFlags& flags, const Log& log, const api::Sealer::Key& key) {
  server::HubOptions options{.heartbeat = duration_of("--heartbeat", flags.heartbeat),
                             .lease = duration_of("--lease", flags.lease),
                             .grace = duration_of("--lease-grace", flags.lease_grace),
                             .certificate_life = certificate_life_of(flags),
                             .checkpoints = std::make_shared<server::CheckpointStore>(
                                 flags.data / "carried", bytes_of("--checkpoint-carry", flags.carry))};
  options.unseal = [sealer = api::Sealer(key)](const std::string& sealed) {
    return sealer.open(sealed).value_or("");
  };
  options.log = [&log](const std::string& line) { log.info(line); };
  return options;
}

void answer_agent(server::AgentHub& hub, api::Api& api, net::Request&& request, net::Reply reply) {
  if (request.path == "/v1/agent/link") return hub.accept(std::move(request), std::move(reply));
  if (request.path == "/v1/agent/workdir") return hub.give_workdir(request, std::move(reply));
  if (request.path == "/v1/agent/checkpoint")
    return request.method == "POST" ? hub.take_checkpoint(request, std::move(reply))
                                    : hub.give_checkpoint(request, std::move(reply));
  if (request.path == "/v1/nodes/join") return api.handle(std::move(request), std::move(reply));
  reply.send(
      {.status = 404, .content_type = "text/plain", .body = "this address is for agents\n", .headers = {}});
}

int serve(const ServerFlags& flags) {
  std::optional<wire::TestLevel> acceptance;
  if (!flags.acceptance.empty())
    acceptance = cli::enum_value<wire::TestLevel>("--acceptance", flags.acceptance);
  if (sodium_init() < 0) throw std::runtime_error("libsodium could not be started");
  const sigset_t signals = block_signals();
  const Log log;
  std::filesystem::create_directories(flags.data);
  std::atomic<bool> ended = false;
  std::atomic<int> status = cli::kOk;
  const auto fatal = [&](const std::string& why) {
    log.error(why);
    status = cli::kOther;
    ended = true;
    ::kill(::getpid(), SIGTERM);
  };
  server::Loop loop(loop_options(flags, log, fatal));
  const bool first_start = loop.fresh();
  const auto authority = std::make_shared<const net::CertificateAuthority>(own_authority(flags.data));
  const api::Sealer::Key key = own_seal_key(flags.data);
  const Duration retention = duration_of("--log-retention", flags.log_retention);
  server::LogStore logs(flags.data / "logs");
  const auto workdirs = std::make_shared<server::WorkdirStore>(flags.data / "workdirs");
  server::HubOptions of_hub = hub_options(flags, log, key);
  of_hub.authority = authority;
  of_hub.workdirs = workdirs;
  server::AgentHub hub(loop, logs, std::move(of_hub));
  gateway::Gateway gateway(loop,
                           hub,
                           {.seed = randombytes_random(),
                            .domain = gateway_domain(flags.doors),
                            .sealed = gateway_identity(*authority)});
  std::unique_ptr<api::Api> edge;
  net::Server agents(agent_options(flags.doors, *authority), [&](net::Request&& request, net::Reply reply) {
    answer_agent(hub, *edge, std::move(request), std::move(reply));
  });
  const api::AgentAddress agent_address{.url = url_of_agents(flags.doors, agents.port()),
                                        .ca_pin = pin_of(*authority)};
  edge = std::make_unique<api::Api>(
      loop,
      api::ApiOptions{.version = TRANCHE_VERSION,
                      .folder = flags.data,
                      .console = flags.console,
                      .seed = randombytes_random(),
                      .seal_key = key,
                      .hub = &hub,
                      .logs = &logs,
                      .workdirs = workdirs.get(),
                      .agents = agent_address,
                      .live_service = [&](const engine::ServiceKey& service, wire::ServiceView& view) {
                        gateway.describe(service, view);
                      }});
  api::Api& api = *edge;
  net::Server server(server_options(flags.doors, *authority), [&](net::Request&& request, net::Reply reply) {
    api.handle(std::move(request), std::move(reply));
  });
  net::Server services(gateway_options(flags.doors, *authority),
                       [&](net::Request&& request, net::Reply reply) {
                         gateway.handle(std::move(request), std::move(reply));
                       });
  loop.start();
  if (first_start) found_platform(loop, flags.data, flags.operator_name);
  log.info(set_acceptance(loop, flags.data, acceptance));
  hub.start();
  agents.start();
  server.start();
  services.start();
  gateway.start(url_of_gateway(flags.doors, services.port()));
  if (!flags.port_file.empty()) write_private_file(flags.port_file, std::to_string(server.port()) + '\n');
  log.info("serving on " + url_of_server(flags.doors, server.port()) + ", data in " + flags.data.string() +
           ", " + std::to_string(loop.counts().sequence) + " records");
  if (first_start)
    log.info("first start: the operator's token is in " + (flags.data / "operator.token").string());
  {
    const BackgroundVerification verification(loop, fatal);
    std::unique_ptr<EmbeddedAgent> agent;
    if (flags.with_agent)
      agent = std::make_unique<EmbeddedAgent>(invite_this_machine(loop, flags, agent_address, hub.options()));
    const auto forget_old_logs = [&] {
      const auto age = std::chrono::duration_cast<std::chrono::seconds>(retention);
      if (const std::size_t jobs = logs.forget_older(age); jobs > 0)
        log.info("logs of " + std::to_string(jobs) + " jobs were older than " + flags.log_retention);
    };
    wait_for_signal(signals, api, hub, forget_old_logs, ended);
    log.info("ending: finishing what is in flight");
    services.drain(std::chrono::seconds(5));
    agent.reset();
    server.drain(std::chrono::seconds(10));
  }
  hub.close();
  agents.drain(std::chrono::seconds(2));
  services.stop();
  gateway.stop();
  loop.stop();
  server.stop();
  agents.stop();
  log.info("ended");
  return status;
}

void add_flags(const cli::Command& command, const std::shared_ptr<ServerFlags>& flags) {
  command.add_option("--data", flags->data, "Folder of the journal, keys and snapshots")
      .capture_default_str();
  command.add_option("--listen", flags->doors.listen, "ADDRESS:PORT; port 0 takes a free one")
      .capture_default_str();
  command.add_option("--agents",
                     flags->doors.agents,
                     "ADDRESS:PORT for machines that join; default: the port after --listen");
  command.add_option("--gateway",
                     flags->doors.gateway,
                     "ADDRESS:PORT where services are called; default: two after --listen");
  command
      .add_option("--gateway-threads",
                  flags->doors.gateway_threads,
                  "Threads that pass requests on to services; default: one a core, eight at most")
      .between(1U, 64U);
  command
      .add_option("--gateway-domain",
                  flags->doors.gateway_domain,
                  "Names below it lead to the gateway, and each is one service's own origin for browsers; "
                  "default: localhost where the gateway listens there; none: services share one")
      .type_name("DOMAIN");
  command.add_option("--port-file", flags->port_file, "Write the port here once it is open");
  const cli::Option certificate = command.add_option(
      "--tls-cert", flags->doors.certificate, "PEM certificate chain; default: of our own CA");
  command.add_option("--tls-key", flags->doors.key, "PEM key").needs(certificate);
  command.add_option("--operator", flags->operator_name, "Name of the operator at the first start")
      .capture_default_str();
  command.add_option("--ballast", flags->ballast_mib, "MiB kept back for stops on a full disk")
      .capture_default_str();
  command.add_option("--heartbeat", flags->heartbeat, "How often agents speak").capture_default_str();
  command.add_option("--lease", flags->lease, "How long a node may work on without a word from the server")
      .capture_default_str();
  command.add_option("--lease-grace", flags->lease_grace, "Beyond that, before its work is started elsewhere")
      .capture_default_str();
  command
      .add_option("--certificate-life",
                  flags->certificate_life,
                  "Of nodes, at most 24h; renewed at half of it. One that is off for longer is let in again "
                  "with tranche node add")
      .capture_default_str();
  command
      .add_option(
          "--log-retention", flags->log_retention, "Logs of jobs that wrote nothing for so long are deleted")
      .capture_default_str();
  command
      .add_option("--checkpoint-carry",
                  flags->carry,
                  "Largest checkpoint that is carried to another node; larger ones need a shared volume")
      .type_name("SIZE")
      .capture_default_str();
  command
      .add_option(
          "--acceptance",
          flags->acceptance,
          "How new devices are tested before their first use: quick, standard or full; kept in the health "
          "policy, which says full unless somebody changed it")
      .type_name("LEVEL");
  command.add_option("--snapshot-every", flags->snapshot_every, "Records between snapshots")
      .positive()
      .capture_default_str();
}

std::filesystem::path default_data() {
  if (::geteuid() == 0) return "/var/lib/tranche";
  const char* home = std::getenv("HOME");
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data != '\0') return std::filesystem::path(data) / "tranche" / "server";
  return std::filesystem::path(home == nullptr ? "." : home) / ".local/share/tranche/server";
}

}  // namespace

void add_server_commands(const cli::Command& root, int& status) {
  const auto flags = std::make_shared<ServerFlags>();
  flags->data = default_data();
  const cli::Command server =
      cli::add_local_command(root,
                             {"server",
                              "Run the control plane until SIGTERM",
                              "tranche server --data ./data --listen 127.0.0.1:7878"});
  add_flags(server, flags);
  server.callback([flags, &status] { status = serve(*flags); });

  const auto embedded = std::make_shared<ServerFlags>(*flags);
  const cli::Command up =
      cli::add_local_command(root,
                             {"up",
                              "Run the whole platform on this machine, for this machine",
                              "tranche up\ntranche up --data ./data --listen 127.0.0.1:0"});
  add_flags(up, embedded);
  const auto alone = std::make_shared<bool>(false);
  up.add_flag("--no-agent", *alone, "Only the control plane; this machine brings no capacity");
  up.callback([embedded, alone, &status] {
    embedded->with_agent = !*alone;
    status = serve(*embedded);
  });
}

}  // namespace tranche::app
