// SPDX-License-Identifier: Apache-2.0
#pragma once
// The connecting end of a WebSocket, as agents use it: it connects in the caller's thread, then calls back
// on a thread of its own.
#include <memory>
#include <string>

#include "base/result.hpp"
#include "net/client.hpp"
#include "net/websocket.hpp"

namespace tranche::net {

class WebSocketClient {
 public:
  // Blocks until the WebSocket is open or cannot be opened. `callbacks` are called only if it was opened,
  // except that on_open may come before this returns.
  static Result<std::unique_ptr<WebSocketClient>, ClientFault> connect(const ClientOptions& where,
                                                                       const std::string& path,
                                                                       const HeaderList& headers,
                                                                       WebSocketCallbacks callbacks,
                                                                       const WebSocketOptions& options = {});
  ~WebSocketClient();  // Cuts the connection and waits for callbacks to end: never destroy it from one.
  WebSocketClient(const WebSocketClient&) = delete;
  WebSocketClient& operator=(const WebSocketClient&) = delete;

  bool send(std::string message);
  void close(std::uint16_t code, std::string reason);
  [[nodiscard]] bool open() const;

 private:
  class State;
  explicit WebSocketClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
