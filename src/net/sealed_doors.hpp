// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ports that speak TLS to the gateway, and to nobody else, and pass what it says on to sockets of this
// machine. One thread of its own for all of them; the key stays with it.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/tls.hpp"

namespace tranche::net {

inline constexpr std::string_view kGatewayName = "tranche-gateway";  // Of its certificate.

class SealedDoors {
 public:
  // `tls` names who vouches for the gateway. Throws std::runtime_error when it is no good.
  explicit SealedDoors(const TlsServerOptions& tls);
  ~SealedDoors();
  SealedDoors(const SealedDoors&) = delete;
  SealedDoors& operator=(const SealedDoors&) = delete;

  // A free port of the address, until it is closed; `inside` is the path of a listening socket. Throws
  // std::runtime_error when it cannot listen.
  std::uint16_t open(const std::string& address, const std::string& inside);
  void close(std::uint16_t port);  // Connections that came through it go on to their end.
  void renew(const TlsServerOptions& tls);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tranche::net
