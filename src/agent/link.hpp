// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way to the server: connects, says when it is open, when it broke, and tries again for as long as it
// lives, each time after a longer and never quite the same wait. It knows nothing of what is said.
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "net/websocket_client.hpp"

namespace tranche::agent {

struct LinkCallbacks {  // On threads of the link; must not block.
  std::function<void()> on_open{};
  std::function<void(std::string frame)> on_frame{};
  std::function<void(const std::string& why)> on_close{};  // Also for an attempt that failed.
};

struct LinkOptions {
  std::string path = "/v1/agent/link";
  std::chrono::milliseconds first_wait{200};
  std::chrono::milliseconds longest_wait{15'000};
  std::uint64_t seed = 1;  // Of the jitter.
};

class Link {
 public:
  Link(std::function<net::ClientOptions()> where, LinkCallbacks callbacks, LinkOptions options = {});
  ~Link();  // Closes, and waits for the callbacks to end.
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void start();
  bool send(std::string frame);  // False: not open; the caller's spool or state remembers.
  void reconnect();              // Drops the connection, e.g. to show a new certificate.
  void close(const std::string& reason);

 private:
  void run();
  std::string serve_once();

  std::function<net::ClientOptions()> where_;
  LinkCallbacks callbacks_;
  LinkOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<net::WebSocketClient> socket_;
  bool open_ = false;
  bool broken_ = false;
  bool stopping_ = false;
  std::string why_;
  std::thread thread_;
};

// Half to all of first * 2^attempt, at most longest.
[[nodiscard]] std::chrono::milliseconds wait_before(unsigned attempt,
                                                    const LinkOptions& options,
                                                    std::uint64_t draw);

}  // namespace tranche::agent
