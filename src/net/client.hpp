// SPDX-License-Identifier: Apache-2.0
#pragma once
// A blocking HTTP/1.1 client that keeps its connection: for the CLI, for providers, and for tests.
// One object serves one thread at a time.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "net/http.hpp"
#include "net/tls.hpp"

namespace tranche::net {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

struct ClientOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::optional<TlsClientOptions> tls;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds request_timeout{30'000};  // From the first byte sent to the last received.
  std::size_t body_bytes_max = 64 * 1024 * 1024;
};

enum class FaultKind {
  kUnreachable,  // No connection: name, network, nobody listening.
  kTlsRefused,   // One of the two ends did not believe the other.
  kTimedOut,
  kBroken,  // The connection ended, or the answer was no HTTP, or it was too large.
};

struct ClientFault {
  FaultKind kind = FaultKind::kBroken;
  std::string message;  // A sentence that names host, port and cause.
};

// One server-sent event. `id` is the last id seen, to resume with Last-Event-ID.
struct ServerEvent {
  std::string id;
  std::string event = "message";
  std::string data;
};

class Client {
 public:
  explicit Client(ClientOptions options);  // Throws std::runtime_error when the TLS options are unusable.
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // A kept connection that the server closed meanwhile is replaced, and the request is sent again only if
  // it is safe to repeat: GET, HEAD, PUT, DELETE, OPTIONS, or one with an Idempotency-Key.
  Result<Response, ClientFault> request(std::string_view method,
                                        std::string_view path,
                                        const HeaderList& headers = {},
                                        std::string_view body = {});
  Result<Response, ClientFault> get(std::string_view path, const HeaderList& headers = {}) {
    return request("GET", path, headers);
  }

  // Calls `on_event` for each event until it returns false or the server ends the stream; silence longer
  // than `idle_timeout` is a fault (comment lines count as a sign of life). Any other answer than an event
  // stream comes back as it is, with its body.
  Result<Response, ClientFault> stream(std::string_view path,
                                       const HeaderList& headers,
                                       const std::function<bool(const ServerEvent&)>& on_event,
                                       std::chrono::milliseconds idle_timeout = std::chrono::minutes{2});

  void disconnect();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
