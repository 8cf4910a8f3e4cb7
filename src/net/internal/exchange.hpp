// SPDX-License-Identifier: Apache-2.0
#pragma once
// One request on its way to an answer: shared by the Reply, on whatever thread it is, and the connection.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/http.hpp"
#include "net/internal/loop.hpp"
#include "net/websocket.hpp"

namespace tranche::net {

class Connection;
class Tunnel;
class WebSocketSession;

// The queue between writers of a stream, on any thread, and its connection.
class StreamState final : public Mail, public std::enable_shared_from_this<StreamState> {
 public:
  StreamState(std::shared_ptr<Loop> loop, std::size_t bytes_max);

  // Any thread:
  bool write(std::string chunk);
  void close();
  void abort();
  [[nodiscard]] bool open() const;
  [[nodiscard]] std::size_t waiting() const;
  void on_close(std::function<void()> callback);

  // The loop's thread:
  void attach(Connection* connection);  // Its turn has come; null: the connection is gone.
  std::string take(bool& ended);        // What was written since.
  void set_backlog(std::size_t bytes) { backlog_.store(bytes, std::memory_order_relaxed); }
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  void gone();  // The client left, or the answer is complete.

 private:
  void deliver() override;
  void notify();  // With mutex_ held.

  const std::shared_ptr<Loop> loop_;
  const std::size_t bytes_max_;
  Connection* connection_ = nullptr;     // The loop's thread only.
  std::atomic<std::size_t> backlog_{0};  // Taken from here, but not yet by the client.
  std::atomic<bool> overflowed_{false};
  mutable std::mutex mutex_;
  std::string pending_;
  std::function<void()> callback_;
  bool queued_ = false;
  bool ended_ = false;  // No further write.
  bool gone_ = false;
};

class Exchange final : public Mail {
 public:
  enum class Answer { kNone, kResponse, kStream, kUpgrade, kTunnel };

  // Set before the handler runs, constant after.
  std::shared_ptr<Loop> loop;
  std::size_t stream_bytes_max = 0;
  bool head_only = false;
  bool keep_alive = true;
  bool http10 = false;
  bool upgradable = false;  // To a WebSocket of ours.
  std::size_t request_bytes = 0;
  std::string websocket_key;
  std::string websocket_protocols;

  // Set by the answering thread before it posts, read by the loop after.
  Answer answer = Answer::kNone;
  Response response;
  std::string relayed_fields;  // Of another server's answer, as they go out.
  std::string switch_to;       // The protocol of the tunnel.
  std::shared_ptr<Tunnel> tunnel;
  std::shared_ptr<StreamState> stream;
  std::shared_ptr<WebSocketSession> websocket;

  // The loop's thread only.
  Connection* connection = nullptr;  // Null once it is gone.
  bool ready = false;
  bool begun = false;  // The head of a streamed answer is out.

  Exchange() = default;
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  static void finish(std::shared_ptr<Exchange> exchange);  // Any thread, once.

 private:
  void deliver() override;
};

}  // namespace tranche::net
