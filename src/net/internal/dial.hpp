// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connects to a host, with TLS when asked, and waits on a socket: everything of a client that blocks.
#include <chrono>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "net/client.hpp"
#include "net/internal/byte_stream.hpp"

namespace tranche::net {

// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const { return value_; }
  int release();
  void reset(int value = -1);

 private:
  int value_ = -1;
};

struct Dialled {
  Descriptor descriptor;
  std::unique_ptr<ByteStream> stream;
};

using Deadline = std::chrono::steady_clock::time_point;

enum class Readiness { kReadable, kWritable };
bool wait_until_ready(int descriptor, Readiness readiness, Deadline deadline);  // False: timed out.

// `tls` null: plain.
Result<Dialled, ClientFault> dial(const ClientOptions& options, const TlsContext* tls);

ClientFault fault_at(const ClientOptions& options, FaultKind kind, const std::string& what);

}  // namespace tranche::net
