// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a machine that knows only the fingerprint of an authority learns the authority itself.
#include <string>

#include "base/result.hpp"
#include "net/client.hpp"

namespace tranche::net {

// sha256:HEX of the certificate's DER form. Throws std::runtime_error when it is no certificate.
[[nodiscard]] std::string certificate_pin(const std::string& certificate_pem);

// The certificate (PEM) with that pin among those the server shows in its handshake. Nothing is sent to the
// server but the handshake, and nothing it says is believed beyond the pin: connect again with the answer as
// the only authority. `where.tls` is not looked at.
[[nodiscard]] Result<std::string, ClientFault> fetch_pinned_authority(const ClientOptions& where,
                                                                      const std::string& pin);

}  // namespace tranche::net
