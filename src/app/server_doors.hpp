// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a server is reached, and as whom: by people and programs, by machines that join, by callers of
// services.
#include <cstdint>
#include <filesystem>
#include <string>

#include "net/certificate_authority.hpp"
#include "net/server.hpp"
#include "net/tls.hpp"

namespace tranche::app {

struct ServerDoors {  // As they were asked for.
  std::string listen = "127.0.0.1:7878";
  std::string agents{};          // Empty: the port after it.
  std::string gateway{};         // Empty: two after it.
  unsigned gateway_threads = 0;  // None: as the cores say.
  std::string gateway_domain{};
  std::filesystem::path certificate{}, key{};  // Empty: of our own CA, where others than this machine come.
};

// Each throws cli::WrongValue for an address that is none.
[[nodiscard]] net::ServerOptions server_options(const ServerDoors& doors,
                                                const net::CertificateAuthority& authority);
[[nodiscard]] net::ServerOptions agent_options(const ServerDoors& doors,
                                               const net::CertificateAuthority& authority);
[[nodiscard]] net::ServerOptions gateway_options(const ServerDoors& doors,
                                                 const net::CertificateAuthority& authority);

// Names below it are services; empty: there are none.
[[nodiscard]] std::string gateway_domain(const ServerDoors& doors);
// The gateway is a client of the doors on nodes, and known to them by this name.
[[nodiscard]] net::TlsClientOptions gateway_identity(const net::CertificateAuthority& authority);

// What others are told, once the ports are known.
[[nodiscard]] std::string url_of_server(const ServerDoors& doors, std::uint16_t port);
[[nodiscard]] std::string url_of_agents(const ServerDoors& doors, std::uint16_t port);
[[nodiscard]] std::string url_of_gateway(const ServerDoors& doors, std::uint16_t port);
// By which machines that join know our CA.
[[nodiscard]] std::string pin_of(const net::CertificateAuthority& authority);

}  // namespace tranche::app
