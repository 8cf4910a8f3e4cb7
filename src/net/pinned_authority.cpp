// SPDX-License-Identifier: Apache-2.0
#include "net/pinned_authority.hpp"

#include <fcntl.h>
#include <openssl/pem.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/time.h>

#include "net/internal/dial.hpp"
#include "net/internal/openssl.hpp"

namespace tranche::net {
namespace {

std::string pin_of(X509* certificate) {
  return "sha256:" + describe(certificate).fingerprint;
}

std::string pem_of(X509* certificate) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(memory.get(), certificate);
  char* bytes = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(length)};
}

}  // namespace

std::string certificate_pin(const std::string& certificate_pem) {
  const auto certificates = parse_certificates(certificate_pem);
  if (certificates.empty()) throw std::runtime_error("there is no certificate in the text");
  return pin_of(certificates.front().get());
}

Result<std::string, ClientFault> fetch_pinned_authority(const ClientOptions& where, const std::string& pin) {
  ClientOptions plain = where;
  plain.tls.reset();
  Result<Dialled, ClientFault> dialled = dial(plain, nullptr);
  if (!dialled) return refuse(dialled.error());
  const int socket = dialled->descriptor.get();
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  const timeval patience{.tv_sec = where.connect_timeout.count() / 1000 + 1, .tv_usec = 0};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO})
    ::setsockopt(socket, SOL_SOCKET, option, &patience, sizeof patience);
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // The pin decides, below.
  const Owned<SSL> session(SSL_new(context.get()));
  SSL_set_fd(session.get(), socket);
  SSL_ctrl(session.get(),
           SSL_CTRL_SET_TLSEXT_HOSTNAME,
           TLSEXT_NAMETYPE_host_name,
           const_cast<char*>(where.host.c_str()));  // NOLINT: only read.
  if (SSL_connect(session.get()) != 1)
    return refuse(fault_at(where, FaultKind::kTlsRefused, "the handshake failed: " + openssl_error()));
  STACK_OF(X509)* shown = SSL_get_peer_cert_chain(session.get());
  for (int i = 0; shown != nullptr && i < sk_X509_num(shown); ++i)
    if (X509* certificate = sk_X509_value(shown, i); pin_of(certificate) == pin) return pem_of(certificate);
  return refuse(fault_at(where, FaultKind::kTlsRefused, "no certificate it shows has the pin " + pin));
}

}  // namespace tranche::net
