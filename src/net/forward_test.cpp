// SPDX-License-Identifier: Apache-2.0
#include "net/forward.hpp"

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <condition_variable>
#include <doctest/doctest.h>
#include <functional>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

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
  explicit Relay(std::uint16_t port, ForwardOptions options = {}, const ServerOptions& server = {})
      : target_{"127.0.0.1", port},
        options_(options),
        running_(server, [this](Request&& request, Reply reply) {
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

// A server behind that reads what comes and answers when it has seen a mark, one connection at a time.
class BodyEater {
 public:
  BodyEater() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&name), size) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size) == 0);
    port_ = ntohs(name.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~BodyEater() {
    ending_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    if (const int client = client_.load(); client >= 0) ::shutdown(client, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  BodyEater(const BodyEater&) = delete;
  BodyEater& operator=(const BodyEater&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  bool until(const std::function<bool(const std::string&)>& wanted) const {
    for (int i = 0; i < 2000 && !wanted(seen()); ++i) std::this_thread::sleep_for(5ms);
    return wanted(seen());
  }
  bool until(std::size_t bytes) const {
    return until([bytes](const std::string& all) { return all.size() >= bytes; });
  }
  void answer_after(std::string mark, std::string with) {
    const std::lock_guard lock(mutex_);
    mark_ = std::move(mark);
    answer_ = std::move(with);
  }

 private:
  void run() {
    while (!ending_) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      client_ = client;
      std::array<char, 65536> piece{};
      for (ssize_t got = 0; !ending_ && (got = ::recv(client, piece.data(), piece.size(), 0)) > 0;) {
        const std::lock_guard lock(mutex_);
        seen_.append(piece.data(), static_cast<std::size_t>(got));
        if (mark_.empty() || seen_.find(mark_) == std::string::npos) continue;
        ::send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
        mark_.clear();
      }
      client_ = -1;
      ::close(client);
    }
  }
  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int> client_{-1};
  mutable std::mutex mutex_;
  std::string seen_, mark_, answer_;
  std::thread thread_;
};

constexpr std::string_view kGood = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
ServerOptions streaming() {
  ServerOptions options;
  options.body_bytes_max = 1 << 20;
  options.stream_bodies_over = 1000;
  return options;
}

TEST_CASE("forward: a body is passed on while it arrives, with its length, and the connection goes on") {
  BodyEater behind;
  behind.answer_after("END", std::string(kGood));
  Relay relay(behind.port(), {}, streaming());
  RawSocket client(relay.front().port());
  client.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 300003\r\n\r\n" + std::string(100'000, 'x'));
  REQUIRE(behind.until(100'000));  // Before the rest was sent.
  CHECK(behind.seen().find("Content-Length: 300003\r\n") != std::string::npos);
  client.send(std::string(200'000, 'y') + "END");
  CHECK(test::status_of(client.read_until("ok")) == 200);
  CHECK(relay.end()->how == ForwardEnd::kDone);
  behind.answer_after("GET /again", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
  client.send("GET /again HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(client.read_until("second").ends_with("second"));
}

TEST_CASE("forward: chunks of unknown number arrive as chunks") {
  BodyEater behind;
  behind.answer_after("0\r\n\r\n", std::string(kGood));
  Relay relay(behind.port(), {}, streaming());
  RawSocket client(relay.front().port());
  client.send("POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  REQUIRE(behind.until([](const std::string& all) { return all.ends_with("5\r\nhello\r\n"); }));
  client.send("6\r\n world\r\n0\r\n\r\n");
  CHECK(test::status_of(client.read_until("ok")) == 200);
  CHECK(behind.seen().find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  CHECK(behind.seen().find("Content-Length") == std::string::npos);
}

TEST_CASE("forward: whoever expects a word to go on gets it when somebody reads") {
  BodyEater behind;
  behind.answer_after("END", std::string(kGood));
  Relay relay(behind.port(), {}, streaming());
  RawSocket client(relay.front().port());
  client.send("POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 20003\r\n\r\n");
  CHECK(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 100 Continue"));
  CHECK(behind.seen().find("Expect") == std::string::npos);
  client.send(std::string(20'000, 'x') + "END");
  CHECK(client.read_until("ok").find("HTTP/1.1 200 OK") != std::string::npos);
}

TEST_CASE("forward: an answer before the end of the body is passed on, and the connection ends") {
  BodyEater behind;
  behind.answer_after("xxx", "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
  Relay relay(behind.port(), {}, streaming());
  RawSocket client(relay.front().port());
  client.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n" + std::string(50'000, 'x'));
  const std::string answer = client.read_all();
  CHECK(test::status_of(answer) == 413);
  CHECK(answer.find("Connection: close\r\n") != std::string::npos);
}

TEST_CASE("forward: a client that leaves in the middle of its body is not waited for") {
  BodyEater behind;
  Relay relay(behind.port(), {}, streaming());
  {
    RawSocket client(relay.front().port());
    client.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n" + std::string(50'000, 'x'));
    REQUIRE(behind.until(50'000));
  }
  const auto end = relay.end();
  REQUIRE(end);
  CHECK(end->how == ForwardEnd::kNoBody);
}

TEST_CASE("forward: a body that does not come is given up, and its client told so") {
  BodyEater behind;
  ServerOptions options = streaming();
  options.body_timeout = 100ms;
  Relay relay(behind.port(), {}, options);
  RawSocket client(relay.front().port());
  client.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n" + std::string(50'000, 'x'));
  CHECK(test::status_of(client.read_all()) == 502);  // As this relay answers whatever is not done.
  CHECK(relay.end()->how == ForwardEnd::kNoBody);
}

TEST_CASE(
    "forward: a request that may be repeated is kept whole, and beyond the limit passed on as it comes") {
  BodyEater behind;
  behind.answer_after("END", std::string(kGood));
  Relay relay(behind.port(), {}, streaming());
  RawSocket client(relay.front().port());
  client.send("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: 100003\r\n\r\n" + std::string(50'000, 'x'));
  std::this_thread::sleep_for(50ms);
  CHECK(behind.seen().empty());  // Not before it is here.
  client.send(std::string(50'000, 'x') + "END");
  CHECK(test::status_of(client.read_until("ok")) == 200);
  CHECK(relay.end()->how == ForwardEnd::kDone);
  RawSocket large(relay.front().port());
  large.send("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + std::string(500'000, 'z'));
  CHECK(behind.until(600'000));
}

}  // namespace
}  // namespace tranche::net
