// SPDX-License-Identifier: Apache-2.0
#include "gateway/sign_in.hpp"

#include <doctest/doctest.h>

namespace tranche::gateway {
namespace {

net::Request asked(std::string query,
                   std::initializer_list<std::pair<const char*, const char*>> fields = {}) {
  net::Request request;
  request.method = "GET";
  request.path = "/acme/desk/tree";
  request.query = std::move(query);
  request.headers.add("Host", "gate:7882");
  for (const auto& [name, value] : fields) request.headers.add(name, value);
  return request;
}

TEST_CASE("sign in: the token of the address becomes a cookie of this service, and leaves the address") {
  const auto request = asked("a=1&tranche_token=tr%2Dx&b=2");
  REQUIRE(token_in_address(request) == "tr-x");
  const auto answer = signed_in(request, "/acme/desk/", "tr-x");
  CHECK(answer.status == 303);
  CHECK(answer.header("Location") == "/acme/desk/tree?a=1&b=2");
  CHECK(answer.header("Set-Cookie") == "tranche_login=tr-x; Path=/acme/desk/; HttpOnly; SameSite=Lax");
  CHECK_FALSE(token_in_address(asked("not_tranche_token=x")));
}

TEST_CASE("sign in: a page of another origin cannot use the cookie") {
  CHECK(token_in_cookie(asked("", {{"Cookie", "a=1; tranche_login=t; b=2"}})) == "t");
  CHECK(token_in_cookie(asked("", {{"Cookie", "tranche_login=t"}, {"Origin", "http://gate:7882"}})) == "t");
  CHECK(token_in_cookie(asked("", {{"Cookie", "tranche_login=t"}, {"Origin", "http://evil:7882"}})).empty());
  CHECK(token_in_cookie(asked("", {{"Cookie", "tranche_login=t"}, {"Origin", "null"}})).empty());
}

TEST_CASE("sign in: a replica sees all but the cookie") {
  auto request = asked("", {{"Cookie", "a=1; tranche_login=t; b=2"}, {"Accept", "*/*"}});
  hide_sign_in(request);
  CHECK(request.header("Cookie") == "a=1; b=2");
  CHECK(request.header("Accept") == "*/*");
  auto only = asked("", {{"cookie", "tranche_login=t"}});
  hide_sign_in(only);
  CHECK_FALSE(only.headers.contains("Cookie"));
}

}  // namespace
}  // namespace tranche::gateway
