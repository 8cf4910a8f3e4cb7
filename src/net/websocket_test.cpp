// SPDX-License-Identifier: Apache-2.0
#include "net/websocket.hpp"

#include <condition_variable>
#include <deque>
#include <doctest/doctest.h>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/random.hpp"
#include "net/certificate_authority.hpp"
#include "net/internal/test_world.hpp"
#include "net/websocket_client.hpp"

namespace tranche::net {
namespace {

using test::RawSocket;
using test::Running;
using namespace std::chrono_literals;

// Messages and the end, handed from the network's thread to the test's.
class Inbox {
 public:
  WebSocketCallbacks callbacks() {
    WebSocketCallbacks out;
    out.on_message = [this](WebSocket&, std::string message) {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(message));
      changed_.notify_all();
    };
    out.on_close = [this](std::uint16_t code, std::string) {
      const std::lock_guard lock(mutex_);
      code_ = code;
      changed_.notify_all();
    };
    return out;
  }
  std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 10s, [&] { return !messages_.empty() || code_; });
    if (messages_.empty()) return std::nullopt;
    std::string message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  std::uint16_t closed() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 10s, [&] { return code_.has_value(); });
    return code_.value_or(0);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> messages_;
  std::optional<std::uint16_t> code_;
};

WebSocketCallbacks echoing() {
  WebSocketCallbacks callbacks;
  callbacks.on_message = [](WebSocket& socket, std::string message) { socket.send(std::move(message)); };
  return callbacks;
}

ClientOptions at(std::uint16_t port) {
  ClientOptions options;
  options.port = port;
  return options;
}

TEST_CASE("websocket: echoes over mutual TLS, small and large, in order") {
  const auto authority = CertificateAuthority::make("Test CA", Validity::lasting(1h));
  const Identity server = authority.issue_server({"127.0.0.1"}, Validity::lasting(1h));
  const Identity agent = authority.issue_client("node-1", Validity::lasting(1h));
  ServerOptions options;
  options.tls = TlsServerOptions{
      server.certificate_pem, server.key_pem, authority.certificate_pem(), ClientCertificates::kRequired};
  std::string name;
  const Running world(options, [&](Request&& request, Reply reply) {
    name = request.client_certificate->common_name;
    reply.upgrade(echoing());
  });
  ClientOptions where = at(world.port());
  where.tls = TlsClientOptions{authority.certificate_pem(), agent.certificate_pem, agent.key_pem, {}};
  Inbox inbox;
  auto client = WebSocketClient::connect(where, "/agent", {{"X-Node", "1"}}, inbox.callbacks());
  REQUIRE(client);
  CHECK(name == "node-1");
  Random random(11);
  std::vector<std::string> sent;
  for (int i = 0; i < 200; ++i) {
    sent.emplace_back(random.below(i % 20 == 0 ? 300'000 : 300), static_cast<char>('a' + i % 26));
    REQUIRE((*client)->send(sent.back()));
  }
  for (const std::string& expected : sent) CHECK(inbox.next() == expected);
  (*client)->close(1000, "done");
  CHECK(inbox.closed() == 1000);
  where.tls->certificate_pem.clear();
  CHECK_FALSE(WebSocketClient::connect(where, "/agent", {}, {}));
}

// A frame as a client must send it: masked.
std::string frame(unsigned opcode, bool final, std::string_view payload) {
  std::string out(1, static_cast<char>(opcode | (final ? 0x80U : 0U)));
  out += static_cast<char>(0x80U | payload.size());  // Up to 125 bytes.
  out.append(4, '\0');                               // A mask of zeros leaves the payload as it is.
  return out.append(payload);
}

constexpr std::string_view kUpgrade =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

TEST_CASE("websocket: a message in fragments is one message, with a ping answered in between") {
  const Running world({}, [](Request&&, Reply reply) { reply.upgrade(echoing()); });
  RawSocket socket(world.port());
  // The first frames come in the same packet as the handshake.
  socket.send(std::string(kUpgrade) + frame(1, false, "one ") + frame(0, false, "two ") +
              frame(9, true, "ping") + frame(0, true, "three"));
  const std::string all = socket.read_until("one two three");
  // The accept value is the example of RFC 6455.
  CHECK(all.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") != std::string::npos);
  CHECK(all.find(std::string("\x8a\x04ping")) != std::string::npos);
  CHECK(all.ends_with(std::string("\x81\x0d") + "one two three"));
}

TEST_CASE("websocket: a message over the limit closes with 1009, bad frames with 1002, bad text with 1007") {
  WebSocketOptions small;
  small.message_bytes_max = 100;
  const Running world({}, [&](Request&&, Reply reply) { reply.upgrade(echoing(), small); });
  const auto close_code_after = [&](const std::string& frames) {
    RawSocket socket(world.port());
    socket.send(std::string(kUpgrade) + frames);
    const std::string all = socket.read_all();
    const std::size_t at = all.rfind(std::string("\x88"));
    REQUIRE(at != std::string::npos);
    REQUIRE(at + 4 <= all.size());
    return (static_cast<unsigned char>(all[at + 2]) << 8) | static_cast<unsigned char>(all[at + 3]);
  };
  CHECK(close_code_after(frame(1, true, std::string(101, 'x'))) == 1009);
  CHECK(close_code_after(frame(1, false, std::string(60, 'x')) + frame(0, true, std::string(60, 'x'))) ==
        1009);
  CHECK(close_code_after(frame(3, true, "reserved opcode")) == 1002);
  CHECK(close_code_after(frame(0, true, "continues nothing")) == 1002);
  CHECK(close_code_after(frame(1, true, "\xff\xfe")) == 1007);
}

TEST_CASE("websocket: a request without a handshake is refused, and the connection goes on") {
  std::promise<std::uint16_t> closed;
  const Running world({}, [&](Request&& request, Reply reply) {
    if (request.path != "/ws") return reply.send(test::text_response("http"));
    WebSocketCallbacks callbacks;
    callbacks.on_close = [&](std::uint16_t code, const std::string&) { closed.set_value(code); };
    reply.upgrade(std::move(callbacks));
  });
  Client client = world.client();
  CHECK(client.get("/ws")->status == 400);
  CHECK(closed.get_future().get() == 1006);
  CHECK(client.get("/x")->body == "http");
}

TEST_CASE("websocket: an upgrade that the handler declines is an ordinary answer") {
  const Running world({}, [&](Request&&, Reply reply) { reply.send(test::text_response("no", 403)); });
  RawSocket socket(world.port());
  socket.send(std::string(kUpgrade) + "GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  CHECK(test::count_of(socket.read_all(), "HTTP/1.1 403 ") == 2);
  const auto client = WebSocketClient::connect(at(world.port()), "/", {}, {});
  REQUIRE_FALSE(client);
  CHECK(client.error().message.find("403") != std::string::npos);
}

TEST_CASE("websocket: a peer that does not read costs a bounded queue") {
  WebSocketOptions options;
  options.queue_bytes_max = 256 * 1024;
  std::promise<std::shared_ptr<WebSocket>> opened;
  std::promise<void> closed;
  const Running world({}, [&](Request&&, Reply reply) {
    WebSocketCallbacks callbacks;
    callbacks.on_close = [&](std::uint16_t, const std::string&) { closed.set_value(); };
    opened.set_value(reply.upgrade(std::move(callbacks), options));
  });
  auto socket = std::make_unique<RawSocket>(world.port());
  socket->send(kUpgrade);
  const auto websocket = opened.get_future().get();
  std::size_t written = 0;
  while (websocket->send(std::string(16 * 1024, 'x'))) {
    written += 16 * 1024;
    REQUIRE(written < 256U * 1024 * 1024);
    std::this_thread::yield();
  }
  CHECK_FALSE(websocket->open());
  socket.reset();
  closed.get_future().wait();
}

TEST_CASE("websocket: a peer that falls silent is found out") {
  WebSocketOptions options;
  options.idle_timeout = 100ms;
  std::promise<std::uint16_t> closed;
  const Running world({}, [&](Request&&, Reply reply) {
    WebSocketCallbacks callbacks;
    callbacks.on_close = [&](std::uint16_t code, const std::string&) { closed.set_value(code); };
    reply.upgrade(std::move(callbacks), options);
  });
  RawSocket socket(world.port());
  socket.send(kUpgrade);
  CHECK(closed.get_future().get() == 1006);
  CHECK(socket.read_all().find(std::string("\x89", 1)) != std::string::npos);  // It was asked by a ping.
}

TEST_CASE("websocket: a living peer stays, because pings are answered") {
  WebSocketOptions options;
  options.idle_timeout = 100ms;
  const Running world({}, [&](Request&&, Reply reply) { reply.upgrade(echoing(), options); });
  Inbox inbox;
  auto client = WebSocketClient::connect(at(world.port()), "/", {}, inbox.callbacks());
  REQUIRE(client);
  const auto until = std::chrono::steady_clock::now() + 500ms;
  while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  CHECK((*client)->send("still here"));
  CHECK(inbox.next() == "still here");
}

TEST_CASE("websocket: a draining server says it goes away") {
  Running world({}, [](Request&&, Reply reply) { reply.upgrade(echoing()); });
  Inbox inbox;
  auto client = WebSocketClient::connect(at(world.port()), "/", {}, inbox.callbacks());
  REQUIRE(client);
  CHECK(world.server.drain(10s));
  CHECK(inbox.closed() == 1001);
}

TEST_CASE("websocket: a server that stops tells both ends") {
  Inbox inbox;
  std::promise<std::uint16_t> closed;
  std::unique_ptr<WebSocketClient> client;
  {
    const Running world({}, [&](Request&&, Reply reply) {
      WebSocketCallbacks callbacks;
      callbacks.on_close = [&](std::uint16_t code, const std::string&) { closed.set_value(code); };
      reply.upgrade(std::move(callbacks));
    });
    client = std::move(WebSocketClient::connect(at(world.port()), "/", {}, inbox.callbacks()).value());
  }
  CHECK(closed.get_future().get() == 1006);
  CHECK(inbox.closed() == 1006);
  CHECK_FALSE(client->send("x"));
}

}  // namespace
}  // namespace tranche::net
