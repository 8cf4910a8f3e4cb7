// SPDX-License-Identifier: Apache-2.0
#include "agent/link.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace tranche::agent {

std::chrono::milliseconds wait_before(unsigned attempt, const LinkOptions& options, std::uint64_t draw) {
  const auto doubled = options.first_wait * (std::int64_t{1} << std::min(attempt, 20U));
  const auto whole = std::min<std::chrono::milliseconds>(doubled, options.longest_wait);
  return whole / 2 + std::chrono::milliseconds(draw % static_cast<std::uint64_t>(whole.count() / 2 + 1));
}

Link::Link(std::function<net::ClientOptions()> where, LinkCallbacks callbacks, LinkOptions options)
    : where_(std::move(where)), callbacks_(std::move(callbacks)), options_(std::move(options)) {}

Link::~Link() {
  close("");
}

void Link::start() {
  thread_ = std::thread([this] { run(); });
}

void Link::run() {
  Random random(options_.seed);
  for (unsigned attempt = 0;; ++attempt) {
    bool was_open = false;
    std::string why = serve_once();
    {
      std::unique_lock lock(mutex_);
      was_open = std::exchange(open_, false);
      if (stopping_) return;
    }
    callbacks_.on_close(why);
    if (was_open) attempt = 0;
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, wait_before(attempt, options_, random.next()), [this] { return stopping_; }))
      return;
  }
}

// Connects and stays until it breaks. Why it ended.
std::string Link::serve_once() {
  net::WebSocketCallbacks callbacks;
  callbacks.on_message = [this](net::WebSocket&, std::string message) {
    callbacks_.on_frame(std::move(message));
  };
  callbacks.on_close = [this](std::uint16_t, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    why_ = reason.empty() ? "the connection ended" : reason;
    changed_.notify_all();
  };
  net::WebSocketOptions options;
  options.kind = net::MessageKind::kBinary;
  options.message_bytes_max = std::size_t{4} << 20U;
  options.queue_bytes_max = std::size_t{64} << 20U;
  options.idle_timeout = std::chrono::seconds(20);
  {
    const std::lock_guard lock(mutex_);
    broken_ = false;
  }
  Result<std::unique_ptr<net::WebSocketClient>, net::ClientFault> connected = [&] {
    try {
      return net::WebSocketClient::connect(where_(), options_.path, {}, std::move(callbacks), options);
    } catch (const std::exception& error) {
      return Result<std::unique_ptr<net::WebSocketClient>, net::ClientFault>(
          refuse(net::ClientFault{net::FaultKind::kTlsRefused, error.what()}));
    }
  }();
  if (!connected) return connected.error().message;
  {
    const std::lock_guard lock(mutex_);
    socket_ = std::move(*connected);
    open_ = true;
  }
  callbacks_.on_open();
  std::unique_ptr<net::WebSocketClient> ended;
  std::string why;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return broken_ || stopping_; });
    ended = std::move(socket_);
    why = why_;
  }
  return why;  // Destroyed here, outside of the lock and of any callback.
}

bool Link::send(std::string frame) {
  const std::lock_guard lock(mutex_);
  return socket_ && !broken_ && socket_->send(std::move(frame));
}

void Link::reconnect() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
  why_ = "begun anew";
  changed_.notify_all();
}

void Link::close(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (socket_ && !reason.empty()) socket_->close(1000, reason);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace tranche::agent
