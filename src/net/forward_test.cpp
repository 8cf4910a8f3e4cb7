// SPDX-License-Identifier: Apache-2.0
#include "net/forward.hpp"

#include <atomic>
#include <condition_variable>
#include <doctest/doctest.h>
#include <mutex>

#include "net/internal/test_world.hpp"
#include "net/websocket_client.hpp"

namespace tranche::net {
namespace {

using test::RawSocket;
using test::Running;
using test::text_response;
using namespace std::chrono_literals;

// Something told on another thread, waited for by the test.
template <class T>
class Told {
 public:
  void tell(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    there_.notify_all();
  }
  std::optional<T> wait() {
    std::unique_lock lock(mutex_);
    there_.wait_for(lock, 10s, [this] { return value_.has_value(); });
    return std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<T> value_;
};

struct End {
  ForwardEnd how{};
  int status = 0;
};

// A server that sends every request on to another.
class Relay {
 public:
  explicit Relay(std::uint16_t port, ForwardOptions options = {})
      : target_{"127.0.0.1", port}, options_(options), running_({}, [this](Request&& request, Reply reply) {
          auto errand = std::make_shared<Passing>(*this, std::move(request));
          forwarder_.send(errand, target_, options_, std::move(reply));
        }) {}
  ~Relay() {
    running_.server.stop();
    forwarder_.close();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  Running& front() { return running_; }
  std::optional<End> end() { return end_.wait(); }

 private:
  struct Passing final : Errand {
    Passing(Relay& of, Request&& request) : relay(of), asked(std::move(request)) {}
    [[nodiscard]] const Request& request() const override { return asked; }
    [[nodiscard]] std::string_view target_path() const override { return asked.path; }
    void on_head(int, std::string_view, std::string& fields) override { fields += "X-Added: yes\r\n"; }
    void on_body(std::string_view) override {}
    void on_end(ForwardEnd end, int status, Reply* reply) override {
      if (reply != nullptr) reply->send(text_response("nobody", 502));
      relay.end_.tell({end, status});
    }
    Relay& relay;
    Request asked;
  };
  const ForwardTarget target_;
  const ForwardOptions options_;
  Told<End> end_;
  Forwarder forwarder_;
  Running running_;
};

TEST_CASE("forward: answers come back with their fields, over one kept connection") {
  Running behind({}, [](Request&& request, Reply reply) {
    Response response = text_response(request.method + " " + request.path + " " + request.body);
    response.headers.emplace_back("X-Own", std::string(request.header("Authorization")) + "|");
    response.headers.emplace_back("Keep-Alive", "timeout=5");
    reply.send(std::move(response));
  });
  Relay relay(behind.port());
  Client client = relay.front().client();
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.request("POST", "/path", {{"Authorization", "secret"}}, "body");
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == "POST /path body");
    CHECK(answer->header("X-Own") == "|");
    CHECK(answer->header("X-Added") == "yes");
    CHECK(answer->header("Keep-Alive").empty());
    CHECK(answer->header("Content-Type") == "text/plain");
    CHECK(relay.end()->how == ForwardEnd::kDone);
  }
  const auto head = client.request("HEAD", "/path", {}, "");
  REQUIRE(head);
  CHECK(head->header("Content-Length") == "11");
  CHECK(behind.server.counts().accepted == 1);
}

TEST_CASE("forward: a long answer and a stream pass as they come") {
  const std::string large(3 << 20, 'x');
  Running behind({}, [&](Request&& request, Reply reply) {
    if (request.path == "/large") return reply.send(text_response(large));
    const auto stream = reply.stream(text_response(""));
    for (int i = 0; i < 5; ++i) stream->write("piece " + std::to_string(i) + "\n");
  });
  Relay relay(behind.port());
  Client client = relay.front().client();
  CHECK(client.get("/large")->body == large);
  CHECK(client.get("/stream")->body == "piece 0\npiece 1\npiece 2\npiece 3\npiece 4\n");
}

TEST_CASE("forward: nobody there, and nobody who answers in time") {
  std::uint16_t port = 0;
  {
    const Running gone;
    port = gone.port();
  }
  Relay relay(port);
  CHECK(relay.front().client().get("/")->status == 502);
  CHECK(relay.end()->how == ForwardEnd::kNotSent);

  std::optional<Reply> never;
  Running slow({}, [&](Request&&, Reply reply) { never.emplace(std::move(reply)); });
  Relay patient(slow.port(), {.first_byte = 100ms});
  CHECK(patient.front().client().get("/")->status == 502);
  CHECK(patient.end()->how == ForwardEnd::kTimedOut);
  slow.server.stop();
}

struct EchoServer {
  Running running{{}, [](Request&&, Reply reply) {
                    WebSocketCallbacks callbacks;
                    callbacks.on_message = [](WebSocket& socket, std::string message) {
                      socket.send("echo " + message);
                    };
                    reply.upgrade(std::move(callbacks));
                  }};
};

TEST_CASE("forward: an upgrade passes through, both ways, until one of them ends it") {
  EchoServer echo;
  Relay relay(echo.running.port());
  Told<std::string> heard;
  WebSocketCallbacks callbacks;
  callbacks.on_message = [&](WebSocket&, std::string message) { heard.tell(std::move(message)); };
  auto socket = WebSocketClient::connect(
      {.port = relay.front().port(), .tls = std::nullopt}, "/any", {}, std::move(callbacks));
  REQUIRE(socket);
  for (const std::size_t size : {5U, 300'000U, 7U}) {
    const std::string message(size, 'm');
    CHECK((*socket)->send(message));
    CHECK(heard.wait() == "echo " + message);
  }
  socket->reset();
  const auto end = relay.end();
  REQUIRE(end);
  CHECK(end->how == ForwardEnd::kDone);
  CHECK(end->status == 101);
}

constexpr std::string_view kHandshake =
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

TEST_CASE("forward: who upgrades and says nothing for too long is cut off") {
  EchoServer echo;
  Relay relay(echo.running.port(), {.between_bytes = 100ms});
  RawSocket client(relay.front().port());
  client.send(kHandshake);
  const std::string answer = client.read_all();
  CHECK(test::status_of(answer) == 101);
  CHECK(answer.find("X-Added: yes\r\n") != std::string::npos);
  CHECK(answer.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != std::string::npos);
  CHECK_FALSE(client.timed_out());
  CHECK(relay.end()->status == 101);
}

TEST_CASE("forward: an upgrade that is refused is an answer like any other, and the connection goes on") {
  Running behind;
  Relay relay(behind.port());
  RawSocket client(relay.front().port());
  client.send(kHandshake);
  CHECK(test::status_of(client.read_until("GET /? ")) == 200);
  client.send("GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  CHECK(client.read_all().find("GET /next? ") != std::string::npos);
}

}  // namespace
}  // namespace tranche::net
