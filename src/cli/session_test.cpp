// SPDX-License-Identifier: Apache-2.0
#include "cli/session.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "wire/api_party.hpp"

namespace tranche::cli {
namespace {

// Takes one connection after the other; reads a request with its body, then sends what it was told, or
// nothing.
class Listener {
 public:
  explicit Listener(std::vector<std::string> answers) : answers_(std::move(answers)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(socket_, 8) == 0);
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Listener() {
    ::shutdown(socket_, SHUT_RDWR);
    join();
    ::close(socket_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  const std::vector<std::string>& requests() {
    join();
    return requests_;
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void serve() {
    for (const std::string& answer : answers_) {
      const int connection = ::accept(socket_, nullptr, nullptr);
      if (connection < 0) return;
      requests_.push_back(read_request(connection));
      if (!answer.empty()) static_cast<void>(::write(connection, answer.data(), answer.size()));
      ::close(connection);
    }
  }
  static std::string read_request(int connection) {
    std::string text;
    char piece[4096];
    for (;;) {
      const std::size_t head = text.find("\r\n\r\n");
      const std::size_t length = text.find("Content-Length: ");
      const std::size_t body = length == std::string::npos ? 0 : std::stoul(text.substr(length + 16));
      if (head != std::string::npos && text.size() >= head + 4 + body) return text;
      const ssize_t got = ::read(connection, piece, sizeof piece);
      if (got <= 0) return text;
      text.append(piece, static_cast<std::size_t>(got));
    }
  }

  int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::uint16_t port_ = 0;
  std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::string http(int status, std::string_view body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n\r\n" + std::string(body);
}

std::string header(const std::string& request, const std::string& name) {
  const std::size_t at = request.find("\r\n" + name + ": ");
  if (at == std::string::npos) return {};
  const std::size_t start = at + name.size() + 4;
  return request.substr(start, request.find("\r\n", start) - start);
}

Session session_of(const Listener& listener, GlobalFlags flags = {}) {
  flags.quiet = true;
  return {std::move(flags), Environment{.url = listener.url(), .token = "trn_secret"}};
}

constexpr std::string_view kParty =
    R"({"id":"ten_000001","kind":"tenant","name":"acme","path":"acme","new":[1]})";

TEST_CASE("session: a change whose answer was lost is sent once more, with the same key") {
  Listener listener({"", http(201, kParty)});
  Session session = session_of(listener);
  const auto answer =
      session.ask<wire::PartyView>({.method = "POST", .path = "/v1/tenants", .body = R"({"name":"acme"})"});
  CHECK(answer.value.path == "acme");  // And a key that this client does not know does no harm.
  REQUIRE(listener.requests().size() == 2);
  const std::string key = header(listener.requests()[0], "Idempotency-Key");
  CHECK(key.size() == 36);
  CHECK(header(listener.requests()[1], "Idempotency-Key") == key);
  CHECK(header(listener.requests()[0], "Authorization") == "Bearer trn_secret");
  CHECK(listener.requests()[1].ends_with(R"({"name":"acme"})"));
}

TEST_CASE("session: lost twice, it gives up and says that the server is unreachable") {
  Listener listener({"", ""});
  Session session = session_of(listener);
  try {
    session.get<wire::PartyView>("/v1/whoami");
    FAIL("it was taken");
  } catch (const Failure& failure) { CHECK(failure.code() == kUnreachable); }
  CHECK(listener.requests().size() == 2);
}

TEST_CASE("session: a given key and a version are sent, and an answer that refuses is not repeated") {
  Listener listener(
      {http(412, R"({"type":"urn:tranche:problem:stale","title":"t","status":412,"detail":"changed"})")});
  Session session = session_of(listener, {.idempotency_key = "mine"});
  try {
    session.call({.method = "PUT", .path = "/v1/quotas/acme", .body = "{}", .if_match = 7});
    FAIL("it was taken");
  } catch (const Failure& failure) {
    CHECK(failure.code() == kConflict);
    CHECK(failure.lines().front() == "changed");
  }
  REQUIRE(listener.requests().size() == 1);
  CHECK(header(listener.requests()[0], "Idempotency-Key") == "mine");
  CHECK(header(listener.requests()[0], "If-Match") == "\"7\"");
}

TEST_CASE("session: pages are followed to the end and shown as one list") {
  Listener listener({http(200, R"({"items":[{"path":"a"}],"next":"1 2"})"),
                     http(200, R"({"items":[{"path":"b"}],"next":""})")});
  Session session = session_of(listener);
  const auto all = session.get_all<wire::PartyList>("/v1/tenants?limit=1");
  CHECK(all.value.items.size() == 2);
  CHECK(listener.requests()[1].starts_with("GET /v1/tenants?limit=1&cursor=1%202 "));
  CHECK(json_lines(all.body).find("\"path\":\"b\"") != std::string::npos);
}

}  // namespace
}  // namespace tranche::cli
