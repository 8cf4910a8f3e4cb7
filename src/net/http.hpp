// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an HTTP exchange is made of, free of any network: requests, responses, headers, targets.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tranche::net {

// Header fields in the order they came, kept in one piece of memory. Names are found in any case.
class Headers {
 public:
  void add(std::string_view name, std::string_view value);
  [[nodiscard]] std::string_view find(std::string_view name) const;  // The first one; empty when absent.
  [[nodiscard]] std::size_t count(std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return count(name) > 0; }
  [[nodiscard]] std::size_t size() const { return fields_.size(); }
  [[nodiscard]] std::pair<std::string_view, std::string_view> at(std::size_t index) const;
  [[nodiscard]] std::size_t bytes() const { return text_.size(); }

 private:
  struct Field {
    std::uint32_t name_at = 0;
    std::uint32_t value_at = 0;
    std::uint32_t end = 0;
  };
  std::string text_;
  std::vector<Field> fields_;
};

// Who is at the other end of a mutually authenticated connection.
struct PeerCertificate {
  std::string common_name;
  std::vector<std::string> names;  // Subject alternative names: "DNS:…", "IP:…", "URI:…".
  std::string serial;              // Hexadecimal.
  std::string fingerprint;         // SHA-256 of the certificate, lower-case hexadecimal.
  std::int64_t not_after = 0;      // Seconds since 1970.
};

class RequestBody;

struct Request {
  std::string method;
  std::string path;   // As sent, still percent-encoded; always begins with '/' ("*" for OPTIONS *).
  std::string query;  // Without the '?'.
  std::string body;
  std::shared_ptr<RequestBody> rest;  // Of a body that is read as it is passed on; null: `body` is the whole.
  std::string peer;                   // Address of the other end, without the port.
  bool tls = false;
  Headers headers;
  std::shared_ptr<const PeerCertificate> client_certificate;  // Null unless the client showed one.

  [[nodiscard]] std::string_view header(std::string_view name) const { return headers.find(name); }
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // Empty: no Content-Type field.
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;

  [[nodiscard]] std::string_view header(std::string_view name) const;
};

[[nodiscard]] std::string_view reason_phrase(int status);
[[nodiscard]] bool same_text_in_any_case(std::string_view a, std::string_view b);

// "%41b" -> "Ab". Nothing when an escape is malformed. A '+' stays a '+'.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);
[[nodiscard]] std::string percent_encode(std::string_view text);

// "a=1&b=x%20y" -> pairs in order, '+' read as a space. Nothing when an escape is malformed.
using QueryParameters = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] std::optional<QueryParameters> parse_query(std::string_view query);

// "https://[::1]:8443/base" in its parts; nothing when it is not http, https, ws or wss with a host.
struct Url {
  bool tls = false;
  std::string host;
  std::uint16_t port = 0;
  std::string path = "/";
};
[[nodiscard]] std::optional<Url> parse_url(std::string_view text);

}  // namespace tranche::net
