// SPDX-License-Identifier: Apache-2.0
#include "net/sealed_doors.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <future>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "net/certificate_authority.hpp"
#include "net/forward.hpp"
#include "net/internal/test_world.hpp"
#include "net/prober.hpp"

namespace tranche::net {
namespace {

using test::Running;
using test::text_response;
using namespace std::chrono_literals;

const CertificateAuthority& authority() {
  static const CertificateAuthority kOne = CertificateAuthority::make("ours", Validity::lasting(1h));
  return kOne;
}

TlsServerOptions of_node(const std::string& name) {
  const Identity identity = authority().issue_client(name, Validity::lasting(1h));
  return {.certificate_pem = identity.certificate_pem,
          .key_pem = identity.key_pem,
          .client_ca_pem = authority().certificate_pem(),
          .client_certificates = ClientCertificates::kRequired};
}

TlsClientOptions of_client(const CertificateAuthority& from, const std::string& name) {
  const Identity identity = from.issue_client(name, Validity::lasting(1h));
  return {.ca_pem = authority().certificate_pem(),
          .certificate_pem = identity.certificate_pem,
          .key_pem = identity.key_pem,
          .server_name = {}};
}

// Inside: a socket that answers every request with the same words, and counts who came.
class Inside {
 public:
  Inside() : path_("/tmp/tranche-sealed-" + std::to_string(::getpid()) + "-" + std::to_string(++made)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    path_.copy(name.sun_path, sizeof name.sun_path - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::unlink(path_.c_str());
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(listener_, 8) == 0);
    thread_ = std::thread([this] { run(); });
  }
  ~Inside() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    ::unlink(path_.c_str());
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int visitors() const { return visitors_; }

 private:
  void run() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      ++visitors_;
      std::string seen;
      char piece[4096];
      for (ssize_t got = 0; (got = ::recv(client, piece, sizeof piece, 0)) > 0;) {
        seen.append(piece, static_cast<std::size_t>(got));
        if (seen.find("\r\n\r\n") == std::string::npos) continue;
        seen.clear();
        constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ninside";
        ::send(client, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
      }
      ::close(client);
    }
  }
  static inline std::atomic<int> made{0};
  std::string path_;
  int listener_ = -1;
  std::atomic<int> visitors_{0};
  std::thread thread_;
};

int probed(const TlsClientOptions& shown, const ForwardTarget& target) {
  Prober prober(shown);
  std::promise<int> status;
  prober.ask(target, "/", 3s, [&](int found) { status.set_value(found); });
  return status.get_future().get();
}

TEST_CASE("sealed doors: the gateway comes in, and nobody else does") {
  Inside inside;
  SealedDoors doors(of_node("node_7"));
  const std::uint16_t port = doors.open("127.0.0.1", inside.path());
  const TlsClientOptions gateway = of_client(authority(), std::string(kGatewayName));
  CHECK(probed(gateway, {"127.0.0.1", port, "node_7"}) == 200);
  CHECK(inside.visitors() == 1);
  CHECK(probed(of_client(authority(), "node_9"), {"127.0.0.1", port, "node_7"}) ==
        0);  // A node is no gateway.
  const auto stranger = CertificateAuthority::make("theirs", Validity::lasting(1h));
  CHECK(probed(of_client(stranger, std::string(kGatewayName)), {"127.0.0.1", port, "node_7"}) == 0);
  TlsClientOptions nobody = gateway;
  nobody.certificate_pem.clear();
  nobody.key_pem.clear();
  CHECK(probed(nobody, {"127.0.0.1", port, "node_7"}) == 0);
  test::RawSocket plain(port);
  plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  CHECK(plain.read_all().find("inside") == std::string::npos);
  CHECK(inside.visitors() == 1);
  CHECK(probed(gateway, {"127.0.0.1", port, "node_8"}) == 0);  // It is not whom it meant.
  doors.close(port);
  CHECK(probed(gateway, {"127.0.0.1", port, "node_7"}) == 0);
}

struct Passing final : Errand {
  explicit Passing(Request&& request) : asked(std::move(request)) {}
  [[nodiscard]] const Request& request() const override { return asked; }
  [[nodiscard]] std::string_view target_path() const override { return asked.path; }
  void on_head(int, std::string_view, std::string&) override {}
  void on_body(std::string_view) override {}
  void on_end(ForwardEnd, int, Reply* reply) override {
    if (reply != nullptr) reply->send(text_response("nobody", 502));
  }
  Request asked;
};

TEST_CASE("sealed doors: requests pass over one kept connection, also after a new certificate") {
  Inside inside;
  SealedDoors doors(of_node("node_7"));
  const ForwardTarget target{"127.0.0.1", doors.open("127.0.0.1", inside.path()), "node_7"};
  Forwarder forwarder(of_client(authority(), std::string(kGatewayName)));
  {
    Running front({}, [&](Request&& request, Reply reply) {
      forwarder.send(std::make_shared<Passing>(std::move(request)), target, {}, std::move(reply));
    });
    Client client = front.client();
    for (int i = 0; i < 3; ++i) CHECK(client.get("/x")->body == "inside");
    CHECK(inside.visitors() == 1);
    doors.renew(of_node("node_7"));
    CHECK(client.get("/x")->body == "inside");
    front.server.stop();
    forwarder.close();
  }
}

}  // namespace
}  // namespace tranche::net
