// SPDX-License-Identifier: Apache-2.0
#pragma once
// The platform's own certificate authority: made at the first start, it vouches for the server and, with
// short-lived certificates, for agents. EC P-256 throughout.
#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/http.hpp"

namespace tranche::net {

struct Identity {
  std::string certificate_pem;
  std::string key_pem;
};

struct Validity {
  std::chrono::system_clock::time_point from;
  std::chrono::system_clock::time_point until;
  // From five minutes ago, because clocks differ.
  static Validity lasting(std::chrono::seconds life);
};

// What a node makes of itself to be vouched for: its key never leaves it.
struct CertificateRequest {
  std::string request_pem;
  std::string key_pem;
};
[[nodiscard]] CertificateRequest make_certificate_request(const std::string& common_name);

enum class SigningRefusal { kUnreadable, kNotSignedByItsKey, kKeyTooWeak };

class CertificateAuthority {
 public:
  static CertificateAuthority make(const std::string& name, Validity validity);
  // Throws std::runtime_error when the two do not parse or do not belong together.
  static CertificateAuthority load(const Identity& identity);

  [[nodiscard]] const Identity& identity() const { return identity_; }
  [[nodiscard]] const std::string& certificate_pem() const { return identity_.certificate_pem; }

  // `names`: DNS names and addresses the server answers to. The first is also its common name.
  [[nodiscard]] Identity issue_server(const std::vector<std::string>& names, Validity validity) const;
  [[nodiscard]] Identity issue_client(const std::string& common_name, Validity validity) const;
  // The name is what the authority says, whatever the request asks for.
  [[nodiscard]] Result<std::string, SigningRefusal> sign_client(const std::string& request_pem,
                                                                const std::string& common_name,
                                                                Validity validity) const;

 private:
  explicit CertificateAuthority(Identity identity) : identity_(std::move(identity)) {}
  Identity identity_;
};

// What a PEM certificate says about itself; throws std::runtime_error when it is none.
[[nodiscard]] PeerCertificate describe_certificate(const std::string& certificate_pem);

}  // namespace tranche::net
