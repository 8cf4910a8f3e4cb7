// SPDX-License-Identifier: Apache-2.0
#pragma once
// One WebSocket, the same for the end that accepted and the end that connected.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tranche::net {

class WebSocket;

enum class MessageKind { kText, kBinary };

struct WebSocketOptions {
  std::size_t message_bytes_max = 1024 * 1024;  // A larger one closes with 1009.
  std::size_t queue_bytes_max = 4 * 1024 * 1024;
  // Silence after which the peer counts as gone; half-way there it is asked by a ping.
  std::chrono::milliseconds idle_timeout{60'000};
  std::chrono::milliseconds handshake_timeout{10'000};
  MessageKind kind = MessageKind::kText;  // Of what send() sends.
  std::string protocol;                   // Sec-WebSocket-Protocol agreed to; empty: none.
};

struct WebSocketCallbacks {  // Called one at a time, on a thread of the network. Must not block.
  std::function<void(WebSocket&)> on_open;
  std::function<void(WebSocket&, std::string message)> on_message;
  std::function<void(std::uint16_t code, std::string reason)> on_close;  // Last, exactly once.
};

class WebSocket {  // Every function may be called from any thread.
 public:
  virtual ~WebSocket() = default;
  // False once closed, or when the queue is full because the peer reads too slowly: then it is closed.
  virtual bool send(std::string message) = 0;
  virtual void close(std::uint16_t code, std::string reason) = 0;
  [[nodiscard]] virtual bool open() const = 0;
};

}  // namespace tranche::net
