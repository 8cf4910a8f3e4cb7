// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a browser says whose it is, for services that are one person's own: a token in the address once, and
// from then on a cookie that goes to this service only. Programs send the same token as everywhere.
#include <optional>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace tranche::gateway {

inline constexpr std::string_view kSignInParameter = "tranche_token";

[[nodiscard]] std::string_view bearer_of(const net::Request& request);
// From the address; nothing when there is none.
[[nodiscard]] std::optional<std::string> token_in_address(const net::Request& request);
// From the cookie; empty when there is none, or when a page of another origin sends it.
[[nodiscard]] std::string_view token_in_cookie(const net::Request& request);

// Back to the same address without its token, with the cookie. `prefix` is the service's own: "/acme/desk/".
[[nodiscard]] net::Response signed_in(const net::Request& request,
                                      std::string_view prefix,
                                      std::string_view token);
// What a replica gets to see: everything but the cookie.
void hide_sign_in(net::Request& request);

}  // namespace tranche::gateway
