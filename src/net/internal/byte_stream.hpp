// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connected, non-blocking socket, plain or under TLS, behind one face. It never waits: an operation that
// would block says what to wait for, and whoever owns the waiting (Asio, poll) comes back.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <sys/uio.h>

#include "net/http.hpp"
#include "net/tls.hpp"

struct ssl_ctx_st;

namespace tranche::net {

struct Transfer {
  enum class Status { kDone, kWaitReadable, kWaitWritable, kClosed, kFailed };
  Status status = Status::kDone;
  std::size_t bytes = 0;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual Transfer handshake() = 0;
  virtual Transfer read(std::span<char> into) = 0;
  virtual Transfer write(std::span<const iovec> from) = 0;
  virtual void shutdown_write() = 0;                    // Says goodbye; never waits.
  [[nodiscard]] virtual bool has_buffered() const = 0;  // Bytes are here that the socket will not announce.
  [[nodiscard]] virtual std::shared_ptr<const PeerCertificate> peer_certificate() const { return nullptr; }
  [[nodiscard]] virtual std::string last_error() const { return {}; }
};

// The stream does not own the descriptor.
std::unique_ptr<ByteStream> plain_stream(int descriptor);

// Certificates and keys, parsed once. Throws std::runtime_error naming what is wrong with them.
class TlsContext {
 public:
  explicit TlsContext(const TlsServerOptions& options);
  explicit TlsContext(const TlsClientOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  [[nodiscard]] std::unique_ptr<ByteStream> server_stream(int descriptor) const;
  // `name` is what the server's certificate must prove: a DNS name or an address.
  [[nodiscard]] std::unique_ptr<ByteStream> client_stream(int descriptor, const std::string& name) const;
  // To an end that is known by its certificate's common name alone, which the caller looks at.
  [[nodiscard]] std::unique_ptr<ByteStream> peer_stream(int descriptor) const;

 private:
  ssl_ctx_st* context_ = nullptr;
};

}  // namespace tranche::net
