// SPDX-License-Identifier: Apache-2.0
#include "app/server_doors.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "app/embedded_agent.hpp"
#include "app/server_files.hpp"
#include "cli/failure.hpp"
#include "net/sealed_doors.hpp"

namespace tranche::app {
namespace {

constexpr unsigned kGatewayThreadsMost = 8;

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

// A door without an address of its own is so many ports after --listen.
net::ServerOptions beside_listen(const ServerDoors& doors,
                                 const std::string& flag,
                                 const std::string& asked,
                                 std::uint16_t further) {
  net::ServerOptions options = listen_options("--listen", doors.listen);
  if (!asked.empty()) return listen_options(flag, asked);
  if (options.port != 0) options.port = static_cast<std::uint16_t>(options.port + further);
  return options;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

net::TlsServerOptions given_certificate(const ServerDoors& doors) {
  net::TlsServerOptions tls;
  tls.certificate_pem = read_file(doors.certificate);
  tls.key_pem = read_file(doors.key);
  return tls;
}

// One for every core passes the most.
int gateway_threads(unsigned wanted) {
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kGatewayThreadsMost);
  return static_cast<int>(wanted == 0 ? cores : wanted);
}

std::vector<std::string> gateway_names(const ServerDoors& doors) {
  const std::string domain = gateway_domain(doors);
  if (domain.empty()) return {};
  return {domain, "*." + domain};
}

std::string host_of(const std::string& listen) {
  return listen.substr(0, listen.rfind(':'));
}

std::string url(const std::string& scheme, const std::string& host, std::uint16_t port) {
  const bool anywhere = host == "0.0.0.0" || host == "[::]";
  return scheme + "://" + (anywhere ? local_node_name() : host) + ':' + std::to_string(port);
}

}  // namespace

net::ServerOptions server_options(const ServerDoors& doors, const net::CertificateAuthority& authority) {
  net::ServerOptions options = listen_options("--listen", doors.listen);
  if (!doors.certificate.empty()) {
    options.tls = given_certificate(doors);
  } else if (!is_loopback(options.address)) {
    options.tls = own_certificate(authority, options.address);
  }
  return options;
}

// Agents have an address of their own: there, machines prove who they are with certificates of ours.
net::ServerOptions agent_options(const ServerDoors& doors, const net::CertificateAuthority& authority) {
  net::ServerOptions options = beside_listen(doors, "--agents", doors.agents, 1);
  options.tls = own_certificate(authority, options.address);
  options.tls->client_ca_pem = authority.certificate_pem();
  options.tls->client_certificates = net::ClientCertificates::kOptional;
  return options;
}

// Services are called at an address of their own; bodies and streams may be longer there.
net::ServerOptions gateway_options(const ServerDoors& doors, const net::CertificateAuthority& authority) {
  net::ServerOptions options = beside_listen(doors, "--gateway", doors.gateway, 2);
  options.body_bytes_max = std::size_t{64} << 20U;  // Kept, so that the request can be sent again.
  options.stream_bodies_over = std::size_t{64} << 10U;
  options.answer_timeout = std::chrono::hours(1);  // Each service has its own.
  options.threads = gateway_threads(doors.gateway_threads);
  options.spin = std::chrono::microseconds(100);
  if (is_loopback(options.address)) return options;
  options.tls = doors.certificate.empty() ? own_certificate(authority, options.address, gateway_names(doors))
                                          : given_certificate(doors);
  return options;
}

std::string gateway_domain(const ServerDoors& doors) {
  if (doors.gateway_domain == "none") return "";
  if (!doors.gateway_domain.empty()) return doors.gateway_domain;
  // Browsers know by themselves that names below it are this machine.
  const std::string& listen = doors.gateway.empty() ? doors.listen : doors.gateway;
  return listen.starts_with("127.") || listen.starts_with("localhost") ? "localhost" : "";
}

net::TlsClientOptions gateway_identity(const net::CertificateAuthority& authority) {
  const net::Identity identity = authority.issue_client(std::string(net::kGatewayName),
                                                        net::Validity::lasting(std::chrono::hours(24 * 397)));
  return {.ca_pem = authority.certificate_pem(),
          .certificate_pem = identity.certificate_pem,
          .key_pem = identity.key_pem,
          .server_name = {}};
}

std::string url_of_server(const ServerDoors& doors, std::uint16_t port) {
  const std::string host = host_of(doors.listen);
  const bool plain = doors.certificate.empty() && host.starts_with("127.");
  return std::string(plain ? "http" : "https") + "://" + host + ':' + std::to_string(port);
}

std::string url_of_agents(const ServerDoors& doors, std::uint16_t port) {
  return url("https", host_of(doors.agents.empty() ? doors.listen : doors.agents), port);
}

std::string url_of_gateway(const ServerDoors& doors, std::uint16_t port) {
  const std::string host = host_of(doors.gateway.empty() ? doors.listen : doors.gateway);
  const bool plain = host.starts_with("127.") || host == "[::1]" || host == "localhost";
  return url(plain ? "http" : "https", host, port);
}

std::string pin_of(const net::CertificateAuthority& authority) {
  return "sha256:" + net::describe_certificate(authority.certificate_pem()).fingerprint;
}

}  // namespace tranche::app
