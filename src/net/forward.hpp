// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sends a request on to another HTTP server and its answer back to the client, piece by piece as it comes.
// Works on the thread of the request's own connection, with connections to the other server kept and used
// again.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http.hpp"
#include "net/reply.hpp"

namespace tranche::net {

class Loop;

struct ForwardTarget {
  std::string address{};  // Numeric.
  std::uint16_t port = 0;
  auto operator<=>(const ForwardTarget&) const = default;
};

enum class ForwardEnd {
  kDone,
  kNotSent,   // No connection: the request reached nobody.
  kNoAnswer,  // It was sent, and the other end closed before it said anything.
  kBroken,    // The answer broke off; the client was told so by a cut connection.
  kTimedOut,  // Before the first byte of an answer.
  kGone,      // The client left.
};

struct ForwardOptions {
  std::chrono::milliseconds connect{2'000};
  std::chrono::milliseconds first_byte{60'000};
  std::chrono::milliseconds between_bytes{60'000};
};

struct ForwardHooks {
  std::function<void(Response& head)> on_head{};  // May change it; before the client sees any.
  std::function<void(std::string_view piece, bool last)> on_body{};
  // Once, at the end. `reply` is there while the client has seen nothing: it may be tried elsewhere.
  std::function<void(ForwardEnd end, int status, Reply* reply)> on_end{};
};

class Forwarder {
 public:
  Forwarder();
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // From any thread. `target_path` is what the other server is asked for, query and all. Hooks are called on
  // the request's thread and must not block.
  void send(std::shared_ptr<const Request> request,
            std::string target_path,
            ForwardTarget target,
            ForwardOptions options,
            Reply reply,
            ForwardHooks hooks);
  // The thread of a request's connection, and something to do there once what is ready there now is done.
  [[nodiscard]] static const std::shared_ptr<Loop>& thread_of(const Reply& reply);
  static void later(Loop& thread, std::function<void()> what);
  // After the servers whose requests it carried were stopped, and before they are gone.
  void close();

 private:
  class Pools;
  std::shared_ptr<Pools> pools_;
};

// Whether sending it twice does what sending it once does.
[[nodiscard]] bool is_retry_safe(const Request& request);

}  // namespace tranche::net
