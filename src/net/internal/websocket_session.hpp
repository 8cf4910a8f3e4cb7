// SPDX-License-Identifier: Apache-2.0
#pragma once
// The meeting point of HTTP and WebSocket: a connection hands its socket over, and forgets it.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/http.hpp"
#include "net/internal/byte_stream.hpp"
#include "net/internal/loop.hpp"
#include "net/websocket.hpp"

namespace tranche::net {

struct WebSocketUpgrade {
  int descriptor = -1;  // Owned from here on.
  std::unique_ptr<ByteStream> stream;
  std::string early_bytes;  // Arrived behind the handshake.
  std::string key;          // Sec-WebSocket-Key.
  std::string protocols;    // Sec-WebSocket-Protocol as offered.
};

struct WebSocketTarget {
  std::string host;  // For the Host field.
  std::string path;
  std::vector<std::pair<std::string, std::string>> headers;
};

class WebSocketSession : public WebSocket, public Session {
 public:
  // The loop's thread, one of them, once:
  virtual void accept(WebSocketUpgrade upgrade) = 0;
  virtual void connect(WebSocketUpgrade upgrade, const WebSocketTarget& target) = 0;
};

std::shared_ptr<WebSocketSession> make_websocket_session(std::shared_ptr<Loop> loop,
                                                         WebSocketCallbacks callbacks,
                                                         WebSocketOptions options);

}  // namespace tranche::net
