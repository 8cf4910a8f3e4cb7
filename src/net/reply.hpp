// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a request is answered: at once or later, from any thread, with one response, a stream of events, or
// an upgrade to a WebSocket.
#include <functional>
#include <memory>
#include <string>

#include "net/http.hpp"
#include "net/websocket.hpp"

namespace tranche::net {

class Exchange;
class StreamState;

// The open end of a streamed answer (server-sent events). Every function may be called from any thread.
class Stream {
 public:
  explicit Stream(std::shared_ptr<StreamState> state);
  ~Stream();  // Closes.
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // False once the client is gone, or when it reads so slowly that the queue is full: then the connection
  // is cut, and the client comes back with Last-Event-ID.
  bool write(std::string chunk);
  void close();
  void abort();  // Cuts the connection: what was sent is not the whole, and must not look like it.
  [[nodiscard]] bool open() const;
  [[nodiscard]] std::size_t waiting() const;  // Bytes that the client has not taken yet.
  // Called once, on a thread of the server, when the client is gone, or at once when it is already.
  // Must not block.
  void on_close(std::function<void()> callback);

 private:
  std::shared_ptr<StreamState> state_;
};

// "id: 7\nevent: job\ndata: …\n\n" with one data line per line of `data`.
std::string sse_event(std::string_view id, std::string_view event, std::string_view data);

// The right to answer one request, once. Dropped unanswered, the client gets a 500.
class Reply {
 public:
  explicit Reply(std::shared_ptr<Exchange> exchange);
  ~Reply();
  Reply(Reply&&) noexcept = default;
  Reply& operator=(Reply&&) noexcept;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void send(Response response);
  std::shared_ptr<Stream> stream(Response head);  // `head` without a body.
  // Refused with 400 when the request asks for no upgrade; `on_close` is then called at once.
  std::shared_ptr<WebSocket> upgrade(WebSocketCallbacks callbacks, WebSocketOptions options = {});

 private:
  friend class Forwarder;  // Works on the request's own thread.
  std::shared_ptr<Exchange> exchange_;
};

// While one lives, answers of this thread are collected, and each server is woken once at its end.
// Hold it around a burst of answers, never around waiting.
class AnswerBatch {
 public:
  AnswerBatch();
  ~AnswerBatch();
  AnswerBatch(const AnswerBatch&) = delete;
  AnswerBatch& operator=(const AnswerBatch&) = delete;
};

}  // namespace tranche::net
