// SPDX-License-Identifier: Apache-2.0
#include "gateway/sign_in.hpp"

#include <functional>

namespace tranche::gateway {
namespace {

constexpr std::string_view kCookie = "tranche_login=";

// Each "name=value" of a field such as "a=1; b=2".
void for_each_cookie(std::string_view field, const std::function<void(std::string_view)>& see) {
  while (!field.empty()) {
    const auto end = std::min(field.find(';'), field.size());
    std::string_view one = field.substr(0, end);
    field.remove_prefix(std::min(end + 1, field.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    if (!one.empty()) see(one);
  }
}

// A page of somebody else's site can make a browser send the cookie, but not without saying where it is from.
bool is_own_page(const net::Request& request) {
  const std::string_view origin = request.header("Origin");
  if (origin.empty()) return true;
  const auto scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == request.header("Host");
}

std::string address_without_token(const net::Request& request) {
  std::string rest;
  for (std::string_view left = request.query; !left.empty();) {
    const auto end = std::min(left.find('&'), left.size());
    const std::string_view one = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (one.substr(0, one.find('=')) == kSignInParameter) continue;
    rest.append(rest.empty() ? "?" : "&").append(one);
  }
  return request.path + rest;
}

}  // namespace

std::string_view bearer_of(const net::Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view field = request.header("Authorization");
  return field.starts_with(kBearer) ? field.substr(kBearer.size()) : std::string_view();
}

std::optional<std::string> token_in_address(const net::Request& request) {
  if (request.method != "GET" || request.query.find(kSignInParameter) == std::string::npos)
    return std::nullopt;
  const auto parameters = net::parse_query(request.query);
  if (!parameters) return std::nullopt;
  for (const auto& [name, value] : *parameters)
    if (name == kSignInParameter) return value;
  return std::nullopt;
}

std::string_view token_in_cookie(const net::Request& request) {
  std::string_view token;
  if (!is_own_page(request)) return token;
  for_each_cookie(request.header("Cookie"), [&](std::string_view one) {
    if (token.empty() && one.starts_with(kCookie)) token = one.substr(kCookie.size());
  });
  return token;
}

net::Response signed_in(const net::Request& request, std::string_view prefix, std::string_view token) {
  net::Response response{.status = 303, .content_type = {}, .body = {}, .headers = {}};
  std::string cookie(kCookie);
  cookie.append(token).append("; Path=").append(prefix).append("; HttpOnly; SameSite=Lax");
  if (request.tls) cookie += "; Secure";
  response.headers.emplace_back("Set-Cookie", std::move(cookie));
  response.headers.emplace_back("Location", address_without_token(request));
  response.headers.emplace_back("Referrer-Policy", "no-referrer");  // The token stays out of others' logs.
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

void hide_sign_in(net::Request& request) {
  if (request.header("Cookie").find(kCookie) == std::string_view::npos) return;
  net::Headers kept;
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    const auto [name, value] = request.headers.at(i);
    if (!net::same_text_in_any_case(name, "Cookie")) {
      kept.add(name, value);
      continue;
    }
    std::string others;
    for_each_cookie(value, [&](std::string_view one) {
      if (!one.starts_with(kCookie)) others.append(others.empty() ? "" : "; ").append(one);
    });
    if (!others.empty()) kept.add(name, others);
  }
  request.headers = std::move(kept);
}

}  // namespace tranche::gateway
