// SPDX-License-Identifier: Apache-2.0
#pragma once
// For the tests of net: a server on a free port, and a raw socket that sends exactly what it is told.
#include <arpa/inet.h>
#include <chrono>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "net/client.hpp"
#include "net/server.hpp"

namespace tranche::net::test {

using namespace std::chrono_literals;

class RawSocket {
 public:
  explicit RawSocket(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawSocket() { ::close(descriptor_); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void finish_sending() const { ::shutdown(descriptor_, SHUT_WR); }

  // Everything until `text` is in it, the peer closes, or five seconds pass.
  std::string read_until(std::string_view text) {
    while (text.empty() || received_.find(text) == std::string::npos)
      if (!read_some(5s)) break;
    return received_;
  }
  std::string read_all() {
    while (read_some(5s)) {}
    return received_;
  }
  // False at the end of the stream and after `patience`.
  bool read_some(std::chrono::milliseconds patience) {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) {
      timed_out_ = true;
      return false;
    }
    char buffer[4096];
    const ssize_t got = ::recv(descriptor_, buffer, sizeof buffer, 0);
    if (got > 0) received_.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  }
  [[nodiscard]] bool timed_out() const { return timed_out_; }

 private:
  int descriptor_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string received_;
};

inline Response text_response(std::string body, int status = 200) {
  Response response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Answers with method, path, query and body at once.
inline void echo(Request&& request, Reply reply) {
  reply.send(text_response(request.method + " " + request.path + "?" + request.query + " " + request.body));
}

struct Running {
  explicit Running(ServerOptions options = {}, Handler handler = echo)
      : server(std::move(options), std::move(handler)) {
    server.start();
  }
  Server server;
  [[nodiscard]] std::uint16_t port() const { return server.port(); }
  [[nodiscard]] Client client() const {
    ClientOptions options;
    options.port = server.port();
    return Client(options);
  }
};

inline int status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::stoi(std::string(answer.substr(9, 3)))
                                                               : 0;
}

inline std::size_t count_of(std::string_view text, std::string_view needle) {
  std::size_t found = 0;
  for (std::size_t at = text.find(needle); at != text.npos; at = text.find(needle, at + needle.size()))
    ++found;
  return found;
}

}  // namespace tranche::net::test
