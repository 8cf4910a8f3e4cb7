// SPDX-License-Identifier: Apache-2.0
// Plain sockets and OpenSSL behind ByteStream. TLS 1.2 is the oldest version spoken.
#include "net/internal/byte_stream.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdexcept>
#include <sys/socket.h>

#include "net/internal/openssl.hpp"

namespace tranche::net {
namespace {

using Status = Transfer::Status;

Transfer after_error(Status when_blocked) {
  if (errno == EAGAIN || errno == EINTR) return {when_blocked, 0};
  return {Status::kFailed, 0};
}

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int descriptor) : descriptor_(descriptor) {}

  Transfer handshake() override { return {}; }

  Transfer read(std::span<char> into) override {
    const ssize_t got = ::recv(descriptor_, into.data(), into.size(), 0);
    if (got > 0) return {Status::kDone, static_cast<std::size_t>(got)};
    return got == 0 ? Transfer{Status::kClosed, 0} : after_error(Status::kWaitReadable);
  }

  Transfer write(std::span<const iovec> from) override {
    ssize_t sent = 0;
    if (from.size() == 1) {  // The usual case, and cheaper than a message header.
      sent = ::send(descriptor_, from[0].iov_base, from[0].iov_len, MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(from.data());  // NOLINT: the kernel only reads it.
      message.msg_iovlen = from.size();
      sent = ::sendmsg(descriptor_, &message, MSG_NOSIGNAL);
    }
    if (sent >= 0) return {Status::kDone, static_cast<std::size_t>(sent)};
    return after_error(Status::kWaitWritable);
  }

  void shutdown_write() override { ::shutdown(descriptor_, SHUT_WR); }
  [[nodiscard]] bool has_buffered() const override { return false; }
  [[nodiscard]] std::string last_error() const override { return std::strerror(errno); }  // NOLINT

 private:
  int descriptor_;
};

// OpenSSL's own socket BIO writes without MSG_NOSIGNAL, and a peer that left would kill the process.
int bio_write(BIO* bio, const char* data, int size) {
  const int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t sent = ::send(descriptor, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  BIO_clear_retry_flags(bio);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int bio_read(BIO* bio, char* data, int size) {
  const int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t got = ::recv(descriptor, data, static_cast<std::size_t>(size), 0);
  BIO_clear_retry_flags(bio);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* quiet_socket_method() {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
  }();
  return kMethod;
}

class TlsStream final : public ByteStream {
 public:
  enum class Role { kServer, kClient };

  TlsStream(SSL_CTX* context, int descriptor, Role role) : ssl_(SSL_new(context)), descriptor_(descriptor) {
    if (!ssl_) throw std::runtime_error("TLS: " + openssl_error());
    BIO* bio = BIO_new(quiet_socket_method());
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));  // NOLINT
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    role == Role::kServer ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }

  SSL* ssl() { return ssl_.get(); }

  Transfer handshake() override {
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    return done == 1 ? Transfer{} : after(done);
  }

  Transfer read(std::span<char> into) override {
    ERR_clear_error();
    std::size_t got = 0;
    const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    return done == 1 ? Transfer{Status::kDone, got} : after(done);
  }

  Transfer write(std::span<const iovec> from) override {
    ERR_clear_error();
    std::size_t total = 0;
    for (const iovec& piece : from) {
      if (piece.iov_len == 0) continue;
      std::size_t sent = 0;
      const int done = SSL_write_ex(ssl_.get(), piece.iov_base, piece.iov_len, &sent);
      if (done != 1) return total > 0 ? Transfer{Status::kDone, total} : after(done);
      total += sent;
      if (sent < piece.iov_len) break;
    }
    return {Status::kDone, total};
  }

  void shutdown_write() override {
    ERR_clear_error();
    if (SSL_is_init_finished(ssl_.get())) SSL_shutdown(ssl_.get());
    ::shutdown(descriptor_, SHUT_WR);
  }

  [[nodiscard]] bool has_buffered() const override { return SSL_has_pending(ssl_.get()) == 1; }
  [[nodiscard]] std::string last_error() const override { return error_; }

  [[nodiscard]] std::shared_ptr<const PeerCertificate> peer_certificate() const override {
    const Owned<X509> certificate(SSL_get1_peer_certificate(ssl_.get()));
    return certificate ? std::make_shared<const PeerCertificate>(describe(certificate.get())) : nullptr;
  }

 private:
  Transfer after(int done) {
    switch (SSL_get_error(ssl_.get(), done)) {
      case SSL_ERROR_WANT_READ:
        return {Status::kWaitReadable, 0};
      case SSL_ERROR_WANT_WRITE:
        return {Status::kWaitWritable, 0};
      case SSL_ERROR_ZERO_RETURN:
        return {Status::kClosed, 0};
      default:
        break;
    }
    const long verdict = SSL_get_verify_result(ssl_.get());
    error_ = verdict == X509_V_OK ? openssl_error() : X509_verify_cert_error_string(verdict);
    return {Status::kFailed, 0};
  }

  Owned<SSL> ssl_;
  int descriptor_;
  std::string error_;
};

SSL_CTX* new_context() {
  SSL_CTX* context = SSL_CTX_new(TLS_method());
  if (context == nullptr) throw std::runtime_error("TLS: " + openssl_error());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(
      context,
      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
  return context;
}

void use_certificate(SSL_CTX* context, const std::string& certificate_pem, const std::string& key_pem) {
  const std::vector<Owned<X509>> chain = parse_certificates(certificate_pem);
  if (chain.empty()) throw std::runtime_error("TLS: the certificate is not a PEM certificate");
  const Owned<EVP_PKEY> key = parse_private_key(key_pem);
  if (!key) throw std::runtime_error("TLS: the key is not a PEM private key");
  if (SSL_CTX_use_certificate(context, chain.front().get()) != 1)
    throw std::runtime_error("TLS: this certificate cannot be used: " + openssl_error());
  for (std::size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    throw std::runtime_error("TLS: the key does not belong to the certificate");
}

void trust(SSL_CTX* context, const std::string& ca_pem) {
  const std::vector<Owned<X509>> authorities = parse_certificates(ca_pem);
  if (authorities.empty())
    throw std::runtime_error("TLS: the certificate authority is not a PEM certificate");
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const auto& authority : authorities) {
    X509_STORE_add_cert(store, authority.get());
    SSL_CTX_add_client_CA(context, authority.get());
  }
}

}  // namespace

std::unique_ptr<ByteStream> plain_stream(int descriptor) {
  return std::make_unique<PlainStream>(descriptor);
}

TlsContext::TlsContext(const TlsServerOptions& options) {
  Owned<SSL_CTX> context(new_context());
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_CIPHER_SERVER_PREFERENCE);
  use_certificate(context.get(), options.certificate_pem, options.key_pem);
  if (options.client_certificates != ClientCertificates::kIgnored) {
    trust(context.get(), options.client_ca_pem);
    // Sessions resumed on another server must not carry an identity here.
    static constexpr std::array<unsigned char, 7> kSessionContext = {'t', 'r', 'a', 'n', 'c', 'h', 'e'};
    SSL_CTX_set_session_id_context(context.get(), kSessionContext.data(), kSessionContext.size());
    const bool required = options.client_certificates == ClientCertificates::kRequired;
    SSL_CTX_set_verify(
        context.get(), SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  }
  context_ = context.release();
}

TlsContext::TlsContext(const TlsClientOptions& options) {
  Owned<SSL_CTX> context(new_context());
  if (options.ca_pem.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else {
    trust(context.get(), options.ca_pem);
  }
  if (!options.certificate_pem.empty())
    use_certificate(context.get(), options.certificate_pem, options.key_pem);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  context_ = context.release();
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

std::unique_ptr<ByteStream> TlsContext::server_stream(int descriptor) const {
  return std::make_unique<TlsStream>(context_, descriptor, TlsStream::Role::kServer);
}

std::unique_ptr<ByteStream> TlsContext::client_stream(int descriptor, const std::string& name) const {
  auto stream = std::make_unique<TlsStream>(context_, descriptor, TlsStream::Role::kClient);
  X509_VERIFY_PARAM* rules = SSL_get0_param(stream->ssl());
  if (X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) != 1) {
    ERR_clear_error();
    X509_VERIFY_PARAM_set1_host(rules, name.c_str(), name.size());
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    // SSL_set_tlsext_host_name() without its C cast.
    SSL_ctrl(stream->ssl(),
             SSL_CTRL_SET_TLSEXT_HOSTNAME,
             TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(name.c_str()));  // NOLINT: OpenSSL copies it.
  }
  return stream;
}

std::unique_ptr<ByteStream> TlsContext::peer_stream(int descriptor) const {
  auto stream = std::make_unique<TlsStream>(context_, descriptor, TlsStream::Role::kClient);
  // The certificate of a node is one of a client: here it answers.
  X509_VERIFY_PARAM_set_purpose(SSL_get0_param(stream->ssl()), X509_PURPOSE_ANY);
  return stream;
}

}  // namespace tranche::net
