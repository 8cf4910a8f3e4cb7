// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who this node is to its server: key, certificate, authority and name, in private files of the data folder.
#include <filesystem>
#include <optional>
#include <string>

#include "base/ids.hpp"
#include "net/client.hpp"

namespace tranche::agent {

struct ServerAddress {
  std::string host{};
  std::uint16_t port = 0;
};
// https://HOST:PORT; throws std::runtime_error with what is wrong.
[[nodiscard]] ServerAddress parse_server(const std::string& url);

struct Identity {
  std::string server{};  // URL
  std::string name{};
  NodeId node{};
  std::string key_pem{};
  std::string certificate_pem{};
  std::string authority_pem{};
  std::int64_t since = 0;  // When the certificate was received, in seconds since 1970.
};

struct JoinWish {
  std::string server{};
  std::string name{};
  std::string token{};
  std::string pin{};
};

// Nothing: this folder has not joined yet.
[[nodiscard]] std::optional<Identity> load_identity(const std::filesystem::path& data);
void save_identity(const std::filesystem::path& data, const Identity& identity);
// Uses up the token. Throws std::runtime_error with a sentence that says what to do.
[[nodiscard]] Identity join(const JoinWish& wish);
// How to reach the server with it.
[[nodiscard]] net::ClientOptions client_options(const Identity& identity);
// All of it is over, and no server lets the node in with it; and what to do then.
[[nodiscard]] bool has_run_out(const Identity& identity, std::chrono::system_clock::time_point now);
[[nodiscard]] std::string run_out_words(const Identity& identity);
// Half of the certificate's life is over, or all of it.
[[nodiscard]] bool wants_renewal(const Identity& identity, std::chrono::system_clock::time_point now);

}  // namespace tranche::agent
