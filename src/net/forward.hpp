// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sends a request on to another HTTP server and its answer back to the client, piece by piece as it comes.
// Works on the thread of the request's own connection, with connections to the other server kept and used
// again. An upgrade that the other server agrees to is passed through: from then on bytes go both ways.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http.hpp"
#include "net/reply.hpp"
#include "net/tls.hpp"

namespace tranche::net {

class Loop;
class Tunnel;

struct ForwardTarget {
  std::string address{};  // Numeric.
  std::uint16_t port = 0;
  std::string identity{};  // What its certificate must say it is; empty: it is spoken to without TLS.
  auto operator<=>(const ForwardTarget&) const = default;
};

enum class ForwardEnd {
  kDone,
  kNotSent,   // No connection: the request reached nobody.
  kNoAnswer,  // It was sent, and the other end closed before it said anything.
  kBroken,    // The answer broke off; the client was told so by a cut connection.
  kTimedOut,  // Before the first byte of an answer.
  kGone,      // The client left.
  kNoBody,    // The client did not send all of its request's body.
};

struct ForwardOptions {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_byte{60'000};
  std::chrono::milliseconds between_bytes{60'000};
};

// A request that is sent on, and who hears of its way. Called on the request's thread; must not block.
class Errand {
 public:
  virtual ~Errand() = default;
  [[nodiscard]] virtual const Request& request() const = 0;
  [[nodiscard]] virtual std::string_view target_path() const = 0;  // What is asked for there, query and all.
  // Before the client sees any of the answer; `fields` ("Name: value\r\n" each) may be added to.
  virtual void on_head(int status, std::string_view content_type, std::string& fields) = 0;
  virtual void on_body(std::string_view piece) = 0;
  // Once, at the end. `reply` is there while the client has seen nothing: it may be tried elsewhere.
  virtual void on_end(ForwardEnd end, int status, Reply* reply) = 0;
};

class Forwarder {
 public:
  // What it shows to targets with an identity, and who vouches for them; nothing: it has no such targets.
  explicit Forwarder(const std::optional<TlsClientOptions>& sealed = std::nullopt);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  void send(std::shared_ptr<Errand> errand, ForwardTarget target, ForwardOptions options, Reply reply);
  // The thread of a request's connection, and something to do there once what is ready there now is done.
  [[nodiscard]] static const std::shared_ptr<Loop>& thread_of(const Reply& reply);
  static void later(Loop& thread, std::function<void()> what);
  // After the servers whose requests it carried were stopped, and before they are gone.
  void close();

 private:
  friend class Upstream;  // Works with the exchange behind a reply.
  static Exchange& exchange_of(Reply& reply);
  static void switch_protocol(Reply& reply, std::string protocol, std::shared_ptr<Tunnel> tunnel);
  class Pools;
  std::shared_ptr<Pools> pools_;
};

// Whether sending it twice does what sending it once does.
[[nodiscard]] bool is_retry_safe(const Request& request);

}  // namespace tranche::net
