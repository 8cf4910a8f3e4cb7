// SPDX-License-Identifier: Apache-2.0
#pragma once
// One open WebSocket to an agent: frames out in order, with what was taken in for good.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/ids.hpp"
#include "net/websocket.hpp"
#include "wire/agent_message.hpp"

namespace tranche::server {

class AgentLink {
 public:
  AgentLink(NodeId node, std::string address) : node_(node), address_(std::move(address)) {}

  [[nodiscard]] NodeId node() const { return node_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  void opened(const std::shared_ptr<net::WebSocket>& socket) {
    const std::lock_guard lock(mutex_);
    socket_ = socket;
  }

  template <class Message>
  bool send(const Message& message) {
    const std::lock_guard lock(mutex_);
    const auto socket = socket_.lock();
    if (!socket) return false;
    return socket->send(
        wire::frame_bytes({.version = version, .sequence = ++sent_, .acknowledged = acknowledged_}, message));
  }
  void acknowledge(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    acknowledged_ = std::max(acknowledged_, sequence);
  }
  void part(const std::string& reason, const std::string& message) {
    send(wire::Parting{.reason = reason, .message = message});
    const std::lock_guard lock(mutex_);
    if (const auto socket = socket_.lock()) socket->close(1000, reason);
  }

  // Whether a message follows the one before it. A gap means that one was lost or came out of turn: then the
  // link is cut, and the agent sends everything again in its order. One that was here before is let through:
  // the engine knows that it has it.
  [[nodiscard]] bool in_turn(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    if (sequence > received_ + 1) return false;
    received_ = std::max(received_, sequence);
    return true;
  }
  void begins_after(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    received_ = sequence;
  }

  std::uint16_t version = wire::kAgentProtocolMax;
  std::atomic<bool> greeted = false;

 private:
  NodeId node_;
  std::string address_;
  std::mutex mutex_;
  std::weak_ptr<net::WebSocket> socket_;
  std::uint64_t sent_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace tranche::server
