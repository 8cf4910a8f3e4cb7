// SPDX-License-Identifier: Apache-2.0
// Who believes whom: the server's certificate, the client's, versions, and the authority behind both.
#include <condition_variable>
#include <doctest/doctest.h>
#include <future>
#include <mutex>
#include <openssl/ssl.h>
#include <thread>

#include "net/certificate_authority.hpp"
#include "net/internal/test_world.hpp"
#include "net/websocket_client.hpp"

namespace tranche::net {
namespace {

using test::RawSocket;
using test::Running;
using namespace std::chrono_literals;

struct Pki {
  CertificateAuthority authority = CertificateAuthority::make("Test CA", Validity::lasting(1h));
  Identity server = authority.issue_server({"localhost", "127.0.0.1"}, Validity::lasting(1h));
  Identity client = authority.issue_client("node-7", Validity::lasting(1h));
  CertificateAuthority stranger = CertificateAuthority::make("Stranger", Validity::lasting(1h));

  [[nodiscard]] ServerOptions server_options(ClientCertificates wanted = ClientCertificates::kIgnored) const {
    ServerOptions options;
    options.tls =
        TlsServerOptions{server.certificate_pem, server.key_pem, authority.certificate_pem(), wanted};
    return options;
  }
  [[nodiscard]] ClientOptions client_options(std::uint16_t port) const {
    ClientOptions options;
    options.port = port;
    options.tls = TlsClientOptions{};
    options.tls->ca_pem = authority.certificate_pem();
    return options;
  }
  [[nodiscard]] ClientOptions client_options(std::uint16_t port, const Identity& shown) const {
    ClientOptions options = client_options(port);
    options.tls->certificate_pem = shown.certificate_pem;
    options.tls->key_pem = shown.key_pem;
    return options;
  }
};

void whoami(Request&& request, Reply reply) {
  const auto& certificate = request.client_certificate;
  reply.send(test::text_response(certificate ? certificate->common_name + " " + certificate->fingerprint
                                             : "nobody"));
}

FaultKind fault_of(ClientOptions options) {
  const auto answer = Client(std::move(options)).get("/");
  REQUIRE_FALSE(answer);
  return answer.error().kind;
}

TEST_CASE("tls: a client that trusts the authority is served, large bodies both ways included") {
  const Pki pki;
  ServerOptions options = pki.server_options();
  options.body_bytes_max = 8 * 1024 * 1024;
  const Running world(options);
  Client client(pki.client_options(world.port()));
  const std::string body(5 * 1024 * 1024, 'b');
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.request("POST", "/x", {}, body);
    REQUIRE(answer);
    CHECK(answer->body.size() == body.size() + 9);
  }
  CHECK(world.server.counts().accepted == 1);
}

TEST_CASE("tls: a server of another authority, of another name, or out of date is refused by the client") {
  const Pki pki;
  const Running world(pki.server_options());
  ClientOptions wrong_ca = pki.client_options(world.port());
  wrong_ca.tls->ca_pem = pki.stranger.certificate_pem();
  CHECK(fault_of(wrong_ca) == FaultKind::kTlsRefused);
  ClientOptions wrong_name = pki.client_options(world.port());
  wrong_name.tls->server_name = "elsewhere.example";
  CHECK(fault_of(wrong_name) == FaultKind::kTlsRefused);
  ClientOptions right_name = pki.client_options(world.port());
  right_name.tls->server_name = "localhost";
  CHECK(Client(right_name).get("/"));
  const auto now = std::chrono::system_clock::now();
  ServerOptions stale = pki.server_options();
  const Identity expired = pki.authority.issue_server({"127.0.0.1"}, {now - 2h, now - 1h});
  stale.tls->certificate_pem = expired.certificate_pem;
  stale.tls->key_pem = expired.key_pem;
  const Running old_world(stale);
  CHECK(fault_of(pki.client_options(old_world.port())) == FaultKind::kTlsRefused);
}

TEST_CASE("tls: a client certificate that is required must be there, ours, of a client, and in date") {
  const Pki pki;
  const Running world(pki.server_options(ClientCertificates::kRequired), whoami);
  const auto good = Client(pki.client_options(world.port(), pki.client)).get("/");
  REQUIRE(good);
  CHECK(good->body == "node-7 " + describe_certificate(pki.client.certificate_pem).fingerprint);
  CHECK_FALSE(Client(pki.client_options(world.port())).get("/"));
  const Identity foreign = pki.stranger.issue_client("node-7", Validity::lasting(1h));
  CHECK_FALSE(Client(pki.client_options(world.port(), foreign)).get("/"));
  CHECK_FALSE(Client(pki.client_options(world.port(), pki.server)).get("/"));
  const auto now = std::chrono::system_clock::now();
  const Identity expired = pki.authority.issue_client("node-7", {now - 2h, now - 1h});
  CHECK_FALSE(Client(pki.client_options(world.port(), expired)).get("/"));
  const Identity early = pki.authority.issue_client("node-7", {now + 1h, now + 2h});
  CHECK_FALSE(Client(pki.client_options(world.port(), early)).get("/"));
  CHECK(world.server.counts().requests == 1);
}

TEST_CASE("tls: an optional client certificate names its owner, and its absence nobody") {
  const Pki pki;
  const Running world(pki.server_options(ClientCertificates::kOptional), whoami);
  CHECK(Client(pki.client_options(world.port())).get("/")->body == "nobody");
  CHECK(Client(pki.client_options(world.port(), pki.client)).get("/")->body.starts_with("node-7 "));
  const Identity foreign = pki.stranger.issue_client("node-7", Validity::lasting(1h));
  CHECK_FALSE(Client(pki.client_options(world.port(), foreign)).get("/"));
}

// Whether a handshake succeeds with exactly this version of TLS.
bool speaks(std::uint16_t port, int version) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_security_level(context, 0);
  SSL_CTX_set_min_proto_version(context, version);
  SSL_CTX_set_max_proto_version(context, version);
  SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
  const RawSocket socket(port);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, socket.descriptor());
  const bool good = SSL_connect(ssl) == 1;
  SSL_free(ssl);
  SSL_CTX_free(context);
  return good;
}

TEST_CASE("tls: versions before 1.2 are not spoken") {
  const Pki pki;
  const Running world(pki.server_options());
  CHECK_FALSE(speaks(world.port(), TLS1_VERSION));
  CHECK_FALSE(speaks(world.port(), TLS1_1_VERSION));
  CHECK(speaks(world.port(), TLS1_2_VERSION));
  CHECK(speaks(world.port(), TLS1_3_VERSION));
}

TEST_CASE("tls: plain talk, silence and garbage at a TLS port end the connection and nothing else") {
  const Pki pki;
  ServerOptions options = pki.server_options();
  options.header_timeout = 100ms;
  const Running world(options);
  RawSocket plain(world.port());
  plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  RawSocket silent(world.port());
  RawSocket garbage(world.port());
  garbage.send(std::string("\x16\x03\x01\xff\xff garbage garbage"));
  plain.read_all();
  silent.read_all();
  garbage.read_all();
  CHECK_FALSE((plain.timed_out() || silent.timed_out() || garbage.timed_out()));
  bool served = false;  // On a busy machine a handshake may take longer than silence is borne here.
  for (int i = 0; i < 100 && !served; ++i)
    served = Client(pki.client_options(world.port())).get("/").has_value();
  CHECK(served);
}

TEST_CASE("tls: a server takes new certificates while it runs, and refuses broken ones") {
  const Pki pki;
  Running world(pki.server_options());
  CHECK_THROWS_AS(world.server.renew_tls({"nonsense", pki.server.key_pem, {}, {}}), std::runtime_error);
  CHECK_THROWS_AS(world.server.renew_tls({pki.server.certificate_pem, pki.client.key_pem, {}, {}}),
                  std::runtime_error);
  CHECK(Client(pki.client_options(world.port())).get("/"));
  const Identity renewed = pki.stranger.issue_server({"127.0.0.1"}, Validity::lasting(1h));
  world.server.renew_tls({renewed.certificate_pem, renewed.key_pem, {}, {}});
  CHECK(fault_of(pki.client_options(world.port())) == FaultKind::kTlsRefused);
  ClientOptions other = pki.client_options(world.port());
  other.tls->ca_pem = pki.stranger.certificate_pem();
  CHECK(Client(other).get("/"));
}

TEST_CASE("authority: what it stores loads again, and signs what a node asks for under the name it decides") {
  const CertificateAuthority made = CertificateAuthority::make("Test CA", Validity::lasting(24h));
  const CertificateAuthority loaded = CertificateAuthority::load(made.identity());
  const CertificateRequest request = make_certificate_request("i-want-to-be-root");
  const auto signed_pem = loaded.sign_client(request.request_pem, "node-3", Validity::lasting(24h));
  REQUIRE(signed_pem);
  const PeerCertificate about = describe_certificate(*signed_pem);
  CHECK(about.common_name == "node-3");
  CHECK(about.fingerprint.size() == 64);
  const auto lifetime =
      about.not_after - std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  CHECK(lifetime <= 24 * 3600);
  CHECK(lifetime > 24 * 3600 - 600);
  CHECK(loaded.sign_client("nonsense", "node-3", Validity::lasting(1h)).error() ==
        SigningRefusal::kUnreadable);
  const Identity leaf = made.issue_client("node-3", Validity::lasting(1h));
  CHECK_THROWS_AS(CertificateAuthority::load(leaf), std::runtime_error);
  CHECK_THROWS_AS(CertificateAuthority::load({made.certificate_pem(), leaf.key_pem}), std::runtime_error);
  CHECK_THROWS_AS(made.issue_server({"a,DNS:evil"}, Validity::lasting(1h)), std::runtime_error);
  const Identity server = made.issue_server({"localhost", "::1", "10.0.0.1"}, Validity::lasting(1h));
  CHECK(describe_certificate(server.certificate_pem).names ==
        std::vector<std::string>{"DNS:localhost", "IP:::1", "IP:10.0.0.1"});
}

}  // namespace
}  // namespace tranche::net
