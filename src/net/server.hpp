// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP/1.1 server: keep-alive, pipelining, TLS, limits and timeouts on everything, graceful drain.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/http.hpp"
#include "net/reply.hpp"
#include "net/tls.hpp"

namespace tranche::net {

// Called on a thread of the server; must not block. What it throws is answered with a 500.
using Handler = std::function<void(Request&&, Reply)>;

struct ServerOptions {
  std::string address = "127.0.0.1";  // Plain HTTP is served on loopback only.
  std::uint16_t port = 0;             // 0: a free one, see Server::port().
  std::optional<TlsServerOptions> tls;
  int threads = 1;
  std::chrono::microseconds spin{};      // A thread looks so long for more before it sleeps, where that pays.
  std::size_t connections_max = 10'000;  // Beyond: 503.
  std::size_t pipeline_max = 16;         // Requests of one connection in flight; beyond: not read.

  std::size_t header_bytes_max = 16 * 1024;           // 431, or 414 for the request line.
  std::size_t body_bytes_max = 1024 * 1024;           // 413.
  std::size_t stream_bodies_over = 0;                 // Request::rest has the rest of larger ones; 0: never.
  std::size_t stream_bytes_max = 256 * 1024;          // Waiting for one slow reader of a stream.
  std::chrono::milliseconds header_timeout{10'000};   // From the first byte (or the connect) to its end: 408.
  std::chrono::milliseconds body_timeout{30'000};     // 408.
  std::chrono::milliseconds idle_timeout{60'000};     // Between requests: closed.
  std::chrono::milliseconds answer_timeout{120'000};  // For the handler: 504.
  std::chrono::milliseconds write_timeout{30'000};    // A client that stopped reading: closed.
  std::function<void(std::string_view)> on_fault;     // Told what a handler threw, on the server's thread.
};

struct ServerCounts {
  std::uint64_t connections = 0;  // Open now.
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  // Connections answered with 503.
  std::uint64_t requests = 0;
};

class Server {
 public:
  // Binds; throws std::runtime_error when it cannot, std::invalid_argument when it must not.
  Server(ServerOptions options, Handler handler);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  void start();
  // Stops accepting, closes idle connections, lets what is in flight finish. True when all was finished
  // within `patience`. Streams and WebSockets are told to end.
  bool drain(std::chrono::milliseconds patience);
  void stop();
  // New certificates for connections from now on. Throws std::runtime_error and keeps the old ones when bad.
  void renew_tls(const TlsServerOptions& tls);
  [[nodiscard]] ServerCounts counts() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
