// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an end of a TLS connection shows and whom it believes. PEM text throughout; files are read elsewhere.
#include <string>

namespace tranche::net {

enum class ClientCertificates { kIgnored, kOptional, kRequired };

struct TlsServerOptions {
  std::string certificate_pem;  // The chain, own certificate first.
  std::string key_pem;
  std::string client_ca_pem;  // Who may vouch for clients.
  ClientCertificates client_certificates = ClientCertificates::kIgnored;
};

struct TlsClientOptions {
  std::string ca_pem;           // The only authorities believed; empty: those of the system.
  std::string certificate_pem;  // Shown to the server when it asks; empty: none.
  std::string key_pem;
  std::string server_name;  // The name the server must prove; empty: the host connected to.
};

}  // namespace tranche::net
