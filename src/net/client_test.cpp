// SPDX-License-Identifier: Apache-2.0
#include "net/client.hpp"

#include <array>
#include <atomic>
#include <doctest/doctest.h>
#include <thread>

#include "net/internal/event_reader.hpp"
#include "net/internal/test_world.hpp"

namespace tranche::net {
namespace {

using test::Running;
using namespace std::chrono_literals;

// A server that accepts one connection after the other and sends each the next of its lines, whatever is
// asked; then it closes.
class Scripted {
 public:
  explicit Scripted(std::vector<std::string> answers)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        const int peer = ::accept(listener_, nullptr, nullptr);
        if (peer < 0) return;
        char buffer[4096];
        if (::recv(peer, buffer, sizeof buffer, 0) > 0) ++requests_;
        ::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
        ::close(peer);
      }
    });
  }
  ~Scripted() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  [[nodiscard]] Client client() const {
    ClientOptions options;
    options.port = port_;
    return Client(options);
  }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> requests_{0};
  std::thread thread_;
};

TEST_CASE("client: nobody listening, an unknown name and silence are told apart") {
  std::uint16_t port = 0;
  {
    const Running world;
    port = world.port();
  }
  ClientOptions nobody;
  nobody.port = port;
  const auto refused = Client(nobody).get("/");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == FaultKind::kUnreachable);
  CHECK(refused.error().message == "cannot reach 127.0.0.1:" + std::to_string(port) + ": Connection refused");

  ClientOptions unknown;
  unknown.host = "no-such-host.invalid";
  unknown.port = 1;
  const auto nowhere = Client(unknown).get("/");
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().kind == FaultKind::kUnreachable);

  std::vector<Reply> kept;
  const Running silent({}, [&](Request&&, Reply reply) { kept.push_back(std::move(reply)); });
  ClientOptions impatient;
  impatient.port = silent.port();
  impatient.request_timeout = 50ms;
  const auto late = Client(impatient).get("/");
  REQUIRE_FALSE(late);
  CHECK(late.error().kind == FaultKind::kTimedOut);
}

TEST_CASE("client: answers that are no HTTP, or that end too early, are broken") {
  const Scripted server({"",
                         "nonsense\r\n\r\n",
                         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive5",
                         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
                         "SSH-2.0-OpenSSH\r\n"});
  Client client = server.client();
  for (int i = 0; i < 5; ++i) {
    const auto answer = client.get("/");
    REQUIRE_FALSE(answer);
    CHECK(answer.error().kind == FaultKind::kBroken);
  }
}

TEST_CASE("client: a body that ends with the connection, an interim answer and an empty one are understood") {
  const Scripted server(
      {"HTTP/1.1 200 OK\r\n\r\nuntil the end",
       "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
       "HTTP/1.1 204 No Content\r\n\r\n"});
  Client client = server.client();
  CHECK(client.get("/")->body == "until the end");
  const auto created = client.get("/");
  CHECK(created->status == 201);
  CHECK(created->body == "ok");
  CHECK(client.get("/")->status == 204);
}

TEST_CASE("client: a kept connection that the server closed is replaced without a word") {
  ServerOptions options;
  options.idle_timeout = 20ms;
  const Running world(options);
  Client client = world.client();
  REQUIRE(client.get("/1"));
  while (world.server.counts().connections > 0) std::this_thread::yield();
  const auto again = client.request("POST", "/2", {}, "x");
  REQUIRE(again);
  CHECK(again->status == 200);
  CHECK(world.server.counts().accepted == 2);
}

TEST_CASE("client: a request that broke on a fresh connection is not sent twice") {
  const Scripted server({"", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
  Client client = server.client();
  CHECK_FALSE(client.request("POST", "/", {}, "pay"));
  CHECK(server.requests() == 1);
  CHECK(client.get("/"));
}

TEST_CASE("client: events are cut from the stream however it arrives") {
  const std::string text =
      ": hello\nid: 1\nevent: job\ndata: a\ndata: b\n\nid: 2\r\ndata:c\r\n\r\nevent: nothing\n\ndata\n\n";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    EventReader reader;
    std::vector<ServerEvent> seen;
    for (std::size_t at = 0; at < text.size(); at += step) {
      reader.read(std::string_view(text).substr(at, step), [&](const ServerEvent& event) {
        seen.push_back(event);
        return true;
      });
    }
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].id == "1");
    CHECK(seen[0].event == "job");
    CHECK(seen[0].data == "a\nb");
    CHECK(seen[1].id == "2");
    CHECK(seen[1].event == "message");
    CHECK(seen[1].data == "c");
    CHECK(seen[2].data.empty());
  }
}

TEST_CASE("http: addresses are taken apart, and escapes undone") {
  const auto url = parse_url("https://[::1]:8443/v1?x=1");
  REQUIRE(url);
  CHECK(url->tls);
  CHECK(url->host == "::1");
  CHECK(url->port == 8443);
  CHECK(url->path == "/v1?x=1");
  CHECK(parse_url("http://example")->port == 80);
  CHECK(parse_url("wss://example")->port == 443);
  for (const char* bad :
       {"example", "ftp://x", "http://", "http://a:b", "http://u@h", "http://a:99999", "http://[::1"})
    CHECK_FALSE(parse_url(bad));
  CHECK(percent_decode("a%2Fb+c") == "a/b+c");
  CHECK_FALSE(percent_decode("%4"));
  CHECK_FALSE(percent_decode("%zz"));
  CHECK(percent_encode("a/b c~") == "a%2Fb%20c~");
  const auto query = parse_query("a=1&b=x+y%26&&c");
  REQUIRE(query);
  CHECK(*query == QueryParameters{{"a", "1"}, {"b", "x y&"}, {"c", ""}});
  CHECK_FALSE(parse_query("a=%"));
}

}  // namespace
}  // namespace tranche::net
