// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers: JSON bodies, and refusals as RFC 9457 problems with stable types.
#include <cstdint>
#include <string>
#include <string_view>

#include "net/http.hpp"
#include "server/loop.hpp"
#include "wire/codec.hpp"
#include "wire/refusal.hpp"

namespace tranche::api {

[[nodiscard]] net::Response json_response(int status, std::string body);
[[nodiscard]] net::Response document(std::string content_type, std::string body);
[[nodiscard]] net::Response versioned(net::Response response, std::uint64_t version);  // Adds the ETag.
[[nodiscard]] net::Response no_content();

template <class T>
[[nodiscard]] net::Response json(const T& value, int status = 200) {
  return json_response(status, wire::to_json(value));
}

[[nodiscard]] net::Response problem(const wire::Refusal& refusal, std::string_view request_id);
[[nodiscard]] net::Response problem(server::Fault fault, std::string_view request_id);
[[nodiscard]] net::Response problem(const wire::Problem& problem, std::string_view request_id);  // 400

struct ProblemKind {
  int status = 400;
  std::string_view name;  // The end of its type: urn:tranche:problem:NAME
  std::string_view title;
};
[[nodiscard]] net::Response problem(ProblemKind kind,
                                    std::string detail,
                                    std::string fix,
                                    std::string_view request_id);
[[nodiscard]] net::Response unauthenticated(std::string_view request_id);

}  // namespace tranche::api
