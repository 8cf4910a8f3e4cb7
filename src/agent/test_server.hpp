// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server's end of a link as tests need it: real TLS and a real WebSocket, and a memory of all that came.
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/identity.hpp"
#include "net/certificate_authority.hpp"
#include "net/server.hpp"
#include "net/websocket.hpp"
#include "wire/agent_message.hpp"
#include "wire/codec.hpp"

namespace tranche::agent {

class TestServer {
 public:
  TestServer()
      : authority_(
            net::CertificateAuthority::make("Test CA", net::Validity::lasting(std::chrono::hours(1)))) {
    const net::Identity own =
        authority_.issue_server({"127.0.0.1"}, net::Validity::lasting(std::chrono::hours(1)));
    net::ServerOptions options;
    options.tls = net::TlsServerOptions{own.certificate_pem + authority_.certificate_pem(),
                                        own.key_pem,
                                        authority_.certificate_pem(),
                                        net::ClientCertificates::kOptional};
    server_ = std::make_unique<net::Server>(
        options, [this](net::Request&&, net::Reply reply) { accept(std::move(reply)); });
    server_->start();
  }
  ~TestServer() { server_->stop(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  [[nodiscard]] Identity node(const std::string& name) const {
    const net::Identity client =
        authority_.issue_client("node_000001", net::Validity::lasting(std::chrono::hours(1)));
    return {.server = "https://127.0.0.1:" + std::to_string(server_->port()),
            .name = name,
            .node = {1},
            .key_pem = client.key_pem,
            .certificate_pem = client.certificate_pem,
            .authority_pem = authority_.certificate_pem(),
            .since = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())};
  }

  template <class Message>
  void send(const Message& message) {
    const std::lock_guard lock(mutex_);
    if (const auto socket = socket_.lock())
      socket->send(wire::frame_bytes({.sequence = ++sent_, .acknowledged = acknowledged_}, message));
  }
  void drop() {
    const std::lock_guard lock(mutex_);
    if (const auto socket = socket_.lock()) socket->close(1001, "dropped by the test");
  }
  // From now on: what is taken in is acknowledged, heartbeats are answered, the lease lasts so long.
  void behave(bool acknowledges, bool answers, Duration lease) {
    const std::lock_guard lock(mutex_);
    acknowledges_ = acknowledges;
    answers_ = answers;
    lease_ = lease;
  }

  // Waits, however long it takes, until a frame with that kind for which `fits` holds has come.
  template <class Message>
  Message wait_for(const std::function<bool(const Message&)>& fits) {
    std::unique_lock lock(mutex_);
    for (std::size_t seen = 0;;) {
      for (; seen < frames_.size(); ++seen) {
        if (frames_[seen].kind != wire::kMessageKind<Message>) continue;
        auto message = wire::open_frame<Message>(frames_[seen]);
        if (message && fits(*message)) return *message;
      }
      came_.wait(lock);
    }
  }
  wire::LeaseReport wait_for_state(LeaseId lease, wire::LeaseState state) {
    return wait_for<wire::LeaseReport>(
        [&](const wire::LeaseReport& report) { return report.lease == lease && report.state == state; });
  }
  [[nodiscard]] std::vector<wire::AgentFrame> frames() const {
    const std::lock_guard lock(mutex_);
    return frames_;
  }
  [[nodiscard]] std::vector<wire::AgentFrame> take_frames() {  // And forgets them.
    const std::lock_guard lock(mutex_);
    return std::exchange(frames_, {});
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    frames_.clear();
  }

 private:
  void accept(net::Reply reply) {
    net::WebSocketCallbacks callbacks;
    callbacks.on_message = [this](net::WebSocket& socket, const std::string& bytes) { take(socket, bytes); };
    callbacks.on_close = [](std::uint16_t, const std::string&) {};
    const auto socket =
        reply.upgrade(std::move(callbacks),
                      {.message_bytes_max = 4U << 20U, .kind = net::MessageKind::kBinary, .protocol = {}});
    const std::lock_guard lock(mutex_);
    socket_ = socket;
    sent_ = 0;
  }
  void take(net::WebSocket& socket, const std::string& bytes) {
    const auto frame = wire::decode<wire::AgentFrame>(bytes);
    if (!frame) return;
    const std::lock_guard lock(mutex_);
    frames_.push_back(*frame);
    if (acknowledges_) acknowledged_ = std::max(acknowledged_, frame->sequence);
    const auto next = [this] {
      return wire::FramePosition{.sequence = ++sent_, .acknowledged = acknowledged_};
    };
    if (frame->kind == wire::AgentMessageKind::kHello) {
      socket.send(wire::frame_bytes(next(),
                                    wire::Welcome{.node = {1},
                                                  .received = acknowledged_,
                                                  .heartbeat = std::chrono::milliseconds(100),
                                                  .lease = lease_}));
    } else if (const auto beat = wire::open_frame<wire::Heartbeat>(*frame); beat && answers_) {
      socket.send(
          wire::frame_bytes(next(), wire::HeartbeatAnswer{.heartbeat_at = beat->at, .lease = lease_}));
    } else if (const auto chunk = wire::open_frame<wire::LogChunk>(*frame)) {
      socket.send(wire::frame_bytes(next(),
                                    wire::LogAck{.lease = chunk->lease,
                                                 .stream = chunk->stream,
                                                 .offset = chunk->offset + chunk->bytes.size()}));
    }
    came_.notify_all();
  }

  net::CertificateAuthority authority_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::vector<wire::AgentFrame> frames_;
  std::weak_ptr<net::WebSocket> socket_;
  std::uint64_t sent_ = 0, acknowledged_ = 0;
  bool acknowledges_ = true, answers_ = true;
  Duration lease_ = std::chrono::hours(1);
  std::unique_ptr<net::Server> server_;
};

}  // namespace tranche::agent
