// SPDX-License-Identifier: Apache-2.0
// `tranche server`: the control plane on one data folder, until SIGTERM. `tranche up`: the same for one
// machine, with sensible places for everything.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <sodium.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "api/api.hpp"
#include "api/secrets.hpp"
#include "app/commands.hpp"
#include "app/embedded_agent.hpp"
#include "app/founding.hpp"
#include "app/log.hpp"
#include "app/server_files.hpp"
#include "base/text.hpp"
#include "base/wall_clock.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "gateway/gateway.hpp"
#include "journal/failpoint.hpp"
#include "journal/verify.hpp"
#include "net/sealed_doors.hpp"
#include "net/server.hpp"
#include "server/agent_hub.hpp"
#include "server/log_store.hpp"
#include "server/loop.hpp"

namespace tranche::app {
namespace {

struct ServerFlags {
  std::filesystem::path data{};
  std::string listen = "127.0.0.1:7878";
  std::string agents{};
  std::string gateway{};
  unsigned gateway_threads = 0;
  std::string gateway_domain{};
  bool with_agent = false;  // `tranche up`: this machine is its first node.
  std::filesystem::path port_file{};
  std::filesystem::path certificate{}, key{};
  std::filesystem::path console{};
  std::string operator_name = "operator";
  std::uint64_t ballast_mib = 16;
  std::uint64_t snapshot_every = 100'000;
  std::string heartbeat = "5s", lease = "30s", lease_grace = "10s";
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

api::Sealer::Key seal_key(const std::filesystem::path& data) {
  const std::filesystem::path file = data / "keys" / "secrets.key";
  api::Sealer::Key key{};
  if (!std::filesystem::exists(file)) {
    randombytes_buf(key.data(), key.size());
    std::filesystem::create_directories(file.parent_path());
    write_private_file(file, std::string(key.begin(), key.end()));
    return key;
  }
  const std::string content = read_file(file);
  if (content.size() != key.size()) throw std::runtime_error(file.string() + " is not a key of ours");
  std::copy(content.begin(), content.end(), key.begin());
  return key;
}

net::ServerOptions listen_options(const std::string& flag, const std::string& listen) {
  const auto colon = listen.rfind(':');
  if (colon == std::string::npos)
    throw cli::WrongValue(flag, "write ADDRESS:PORT, for example 127.0.0.1:7878");
  net::ServerOptions options;
  options.address = listen.substr(0, colon);
  if (options.address.starts_with('[') && options.address.ends_with(']')) {
    options.address = options.address.substr(1, options.address.size() - 2);
  }
  const std::string port = listen.substr(colon + 1);
  char* end = nullptr;
  const unsigned long number = std::strtoul(port.c_str(), &end, 10);
  if (port.empty() || *end != '\0' || number > 65'535)
    throw cli::WrongValue(flag, "'" + port + "' is no port");
  options.port = static_cast<std::uint16_t>(number);
  return options;
}

net::ServerOptions server_options(const ServerFlags& flags, const net::CertificateAuthority& authority) {
  net::ServerOptions options = listen_options("--listen", flags.listen);
  const bool loopback =
      options.address.starts_with("127.") || options.address == "::1" || options.address == "localhost";
  if (!flags.certificate.empty()) {
    net::TlsServerOptions tls;
    tls.certificate_pem = read_file(flags.certificate);
    tls.key_pem = read_file(flags.key);
    options.tls = std::move(tls);
  } else if (!loopback) {
    options.tls = own_certificate(authority, options.address);
  }
  return options;
}

// Agents have an address of their own: there, machines prove who they are with certificates of ours.
net::ServerOptions agent_options(const ServerFlags& flags, const net::CertificateAuthority& authority) {
  net::ServerOptions options = listen_options("--listen", flags.listen);
  if (flags.agents.empty()) {
    if (options.port != 0) ++options.port;
  } else {
    options = listen_options("--agents", flags.agents);
  }
  options.tls = own_certificate(authority, options.address);
  options.tls->client_ca_pem = authority.certificate_pem();
  options.tls->client_certificates = net::ClientCertificates::kOptional;
  return options;
}

constexpr unsigned kGatewayThreadsMost = 8;

// One for every core passes the most.
int gateway_threads(unsigned wanted) {
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kGatewayThreadsMost);
  return static_cast<int>(wanted == 0 ? cores : wanted);
}

std::string gateway_domain(const ServerFlags& flags) {
  if (flags.gateway_domain == "none") return "";
  if (!flags.gateway_domain.empty()) return flags.gateway_domain;
  // Browsers know by themselves that names below it are this machine.
  const std::string& listen = flags.gateway.empty() ? flags.listen : flags.gateway;
  return listen.starts_with("127.") || listen.starts_with("localhost") ? "localhost" : "";
}

std::vector<std::string> gateway_names(const ServerFlags& flags) {
  const std::string domain = gateway_domain(flags);
  if (domain.empty()) return {};
  return {domain, "*." + domain};
}

// The gateway is a client of the doors on nodes, and known to them by this name.
net::TlsClientOptions gateway_identity(const net::CertificateAuthority& authority) {
  const net::Identity identity = authority.issue_client(std::string(net::kGatewayName),
                                                        net::Validity::lasting(std::chrono::hours(24 * 397)));
  return {.ca_pem = authority.certificate_pem(),
          .certificate_pem = identity.certificate_pem,
          .key_pem = identity.key_pem,
          .server_name = {}};
}

// Services are called at an address of their own; bodies and streams may be longer there.
net::ServerOptions gateway_options(const ServerFlags& flags, const net::CertificateAuthority& authority) {
  net::ServerOptions options = listen_options("--listen", flags.listen);
  if (flags.gateway.empty()) {
    if (options.port != 0) options.port = static_cast<std::uint16_t>(options.port + 2);
  } else {
    options = listen_options("--gateway", flags.gateway);
  }
  options.body_bytes_max = std::size_t{64} << 20U;  // Kept, so that the request can be sent again.
  options.stream_bodies_over = std::size_t{64} << 10U;
  options.answer_timeout = std::chrono::hours(1);  // Each service has its own.
  options.threads = gateway_threads(flags.gateway_threads);
  options.spin = std::chrono::microseconds(100);
  const bool loopback =
      options.address.starts_with("127.") || options.address == "::1" || options.address == "localhost";
  if (!loopback && !flags.certificate.empty()) {
    options.tls.emplace();
    options.tls->certificate_pem = read_file(flags.certificate);
    options.tls->key_pem = read_file(flags.key);
  } else if (!loopback) {
    options.tls = own_certificate(authority, options.address, gateway_names(flags));
  }
  return options;
}

// The embedded agent is invited in the operator's name; one that has joined before needs no invitation.
EmbeddedAgentOptions invite_this_machine(server::Loop& loop,
                                         const ServerFlags& flags,
                                         const api::AgentAddress& where) {
  EmbeddedAgentOptions options{
      .data = flags.data / "agent", .server = where.url, .name = local_node_name(), .ca_pin = where.ca_pin};
  if (has_joined(options.data)) return options;
  options.token = api::new_token_secret();
  const std::string problem =
      run_as_operator(loop,
                      flags.data,
                      engine::AddNode{.name = options.name,
                                      .invitation = server::TokenDirectory::hash(options.token),
                                      .expires_in = std::chrono::hours(1)});
  if (!problem.empty())
    throw std::runtime_error("this machine could not be invited: " + problem +
                             "; tranche node add invites it");
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

api::AgentAddress address_of_agents(const ServerFlags& flags,
                                    std::uint16_t port,
                                    const net::CertificateAuthority& authority) {
  const std::string& listen = flags.agents.empty() ? flags.listen : flags.agents;
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0" || host == "[::]") host = local_node_name();
  return {.url = "https://" + host + ':' + std::to_string(port),
          .ca_pin = "sha256:" + net::describe_certificate(authority.certificate_pem()).fingerprint};
}

std::string url_of_gateway(const ServerFlags& flags, std::uint16_t port) {
  const std::string& listen = flags.gateway.empty() ? flags.listen : flags.gateway;
  std::string host = listen.substr(0, listen.rfind(':'));
  const bool plain = host.starts_with("127.") || host == "[::1]" || host == "localhost";
  if (host == "0.0.0.0" || host == "[::]") host = local_node_name();
  return (plain ? "http://" : "https://") + host + ':' + std::to_string(port);
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
  server::LoopOptions options{.folder = flags.data, .snapshot_every = flags.snapshot_every};
  options.reserve.ballast_bytes = flags.ballast_mib << 20U;
  options.clock = wall_clock;
  options.seed = randombytes_random() * 0x1'0000'0001ULL;
  options.log = [&](const std::string& line) { log.info(line); };
  options.on_fatal = fatal;
  server::Loop loop(std::move(options));
  const bool first_start = loop.fresh();
  const auto authority = std::make_shared<const net::CertificateAuthority>(own_authority(flags.data));
  const api::Sealer::Key key = seal_key(flags.data);
  const Duration retention = duration_of("--log-retention", flags.log_retention);
  server::LogStore logs(flags.data / "logs");
  const auto workdirs = std::make_shared<server::WorkdirStore>(flags.data / "workdirs");
  server::HubOptions hub_options{.heartbeat = duration_of("--heartbeat", flags.heartbeat),
                                 .lease = duration_of("--lease", flags.lease),
                                 .grace = duration_of("--lease-grace", flags.lease_grace),
                                 .authority = authority,
                                 .workdirs = workdirs,
                                 .checkpoints = std::make_shared<server::CheckpointStore>(
                                     flags.data / "carried", bytes_of("--checkpoint-carry", flags.carry))};
  hub_options.unseal = [sealer = api::Sealer(key)](const std::string& sealed) {
    return sealer.open(sealed).value_or("");
  };
  hub_options.log = [&](const std::string& line) { log.info(line); };
  server::AgentHub hub(loop, logs, std::move(hub_options));
  gateway::Gateway gateway(loop,
                           hub,
                           {.seed = randombytes_random(),
                            .domain = gateway_domain(flags),
                            .sealed = gateway_identity(*authority)});
  std::unique_ptr<api::Api> edge;
  net::Server agents(agent_options(flags, *authority), [&](net::Request&& request, net::Reply reply) {
    if (request.path == "/v1/agent/link") return hub.accept(std::move(request), std::move(reply));
    if (request.path == "/v1/agent/workdir") return hub.give_workdir(request, std::move(reply));
    if (request.path == "/v1/agent/checkpoint")
      return request.method == "POST" ? hub.take_checkpoint(request, std::move(reply))
                                      : hub.give_checkpoint(request, std::move(reply));
    if (request.path == "/v1/nodes/join") return edge->handle(std::move(request), std::move(reply));
    reply.send(
        {.status = 404, .content_type = "text/plain", .body = "this address is for agents\n", .headers = {}});
  });
  const api::AgentAddress agent_address = address_of_agents(flags, agents.port(), *authority);
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
  net::Server server(server_options(flags, *authority), [&](net::Request&& request, net::Reply reply) {
    api.handle(std::move(request), std::move(reply));
  });
  net::Server services(gateway_options(flags, *authority), [&](net::Request&& request, net::Reply reply) {
    gateway.handle(std::move(request), std::move(reply));
  });
  loop.start();
  if (first_start) found_platform(loop, flags.data, flags.operator_name);
  log.info(set_acceptance(loop, flags.data, acceptance));
  hub.start();
  agents.start();
  server.start();
  services.start();
  gateway.start(url_of_gateway(flags, services.port()));
  if (!flags.port_file.empty()) write_private_file(flags.port_file, std::to_string(server.port()) + '\n');
  const auto address = flags.listen.substr(0, flags.listen.rfind(':'));
  log.info("serving on " +
           std::string(flags.certificate.empty() && address.starts_with("127.") ? "http" : "https") + "://" +
           address + ':' + std::to_string(server.port()) + ", data in " + flags.data.string() + ", " +
           std::to_string(loop.counts().sequence) + " records");
  if (first_start)
    log.info("first start: the operator's token is in " + (flags.data / "operator.token").string());
  {
    const BackgroundVerification verification(loop, fatal);
    std::unique_ptr<EmbeddedAgent> agent;
    if (flags.with_agent)
      agent = std::make_unique<EmbeddedAgent>(invite_this_machine(loop, flags, agent_address));
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
  command.add_option("--listen", flags->listen, "ADDRESS:PORT; port 0 takes a free one")
      .capture_default_str();
  command.add_option(
      "--agents", flags->agents, "ADDRESS:PORT for machines that join; default: the port after --listen");
  command.add_option(
      "--gateway", flags->gateway, "ADDRESS:PORT where services are called; default: two after --listen");
  command
      .add_option("--gateway-threads",
                  flags->gateway_threads,
                  "Threads that pass requests on to services; default: one a core, eight at most")
      .between(1U, 64U);
  command
      .add_option("--gateway-domain",
                  flags->gateway_domain,
                  "Names below it lead to the gateway, and each is one service's own origin for browsers; "
                  "default: localhost where the gateway listens there; none: services share one")
      .type_name("DOMAIN");
  command.add_option("--port-file", flags->port_file, "Write the port here once it is open");
  const cli::Option certificate =
      command.add_option("--tls-cert", flags->certificate, "PEM certificate chain; default: of our own CA");
  command.add_option("--tls-key", flags->key, "PEM key").needs(certificate);
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
