// SPDX-License-Identifier: Apache-2.0
#include "gateway/directory.hpp"

#include <doctest/doctest.h>

namespace tranche::gateway {
namespace {

net::Request asked(const std::string& host, const std::string& path) {
  net::Request request;
  request.path = path;
  if (!host.empty()) request.headers.add("Host", host);
  return request;
}

TEST_CASE("directory: a service is found by its path") {
  const auto found = [](const std::string& path) { return place_of(asked("gate:7880", path), "").key; };
  CHECK(found("/acme/echo/health") == "acme/echo");
  CHECK(found("/acme/echo") == "acme/echo");
  CHECK(found("/acme/") == "acme/");
  CHECK(found("/acme").empty());
  CHECK(found("/").empty());
  const net::Request request = asked("gate", "/acme/echo/v1/models");
  const Place place = place_of(request, "example.org");
  CHECK(place.rest == "/v1/models");
  CHECK_FALSE(place.is_own_origin);
}

TEST_CASE("directory: a name below the domain is one service, whatever the path says") {
  const net::Request request = asked("Echo--Acme.Example.org:7880", "/globex/other/x");
  const Place place = place_of(request, "example.org");
  CHECK(place.is_own_origin);
  CHECK(place.key == "acme/echo");
  CHECK(place.rest == "/globex/other/x");
  CHECK(place_of(asked("a--b--acme.example.org", "/"), "example.org").key == "acme/a--b");
  // Names that only look like it are ordinary hosts, or services that do not exist.
  for (const char* host : {"echo--acme.example.org.evil.net",
                           "example.org",
                           ".example.org",
                           "badexample.org",
                           "x.echo--acme.example.org",
                           "echo--acme.example.orgx",
                           "[::1]:7880"})
    CHECK_MESSAGE(!place_of(asked(host, "/acme/echo/"), "example.org").is_own_origin, std::string(host));
  CHECK(place_of(asked("echo.example.org", "/acme/echo/"), "example.org").key.empty());
  CHECK_FALSE(place_of(asked("echo--acme.example.org", "/acme/echo/"), "").is_own_origin);
}

TEST_CASE("directory: a label is made only where it leads back to the same service") {
  CHECK(host_label("acme", "echo") == "echo--acme");
  CHECK(host_label("acme", "a--b") == "a--b--acme");
  CHECK(host_label("ac--me", "echo").empty());
  CHECK(host_label("acme", "-echo").empty());
  CHECK(host_label("acme-", "echo").empty());
  CHECK(host_label("acme/sub", "echo").empty());
  CHECK(host_label("acme", std::string(57, 'x')).size() == 63);
  CHECK(host_label("acme", std::string(58, 'x')).empty());
}

TEST_CASE("allowance: requests are taken one by one, and all of them or none") {
  const auto make = [](Allowance::Unit unit, std::int64_t left) {
    return std::make_shared<Allowance>(unit, left, Instant{}, "used up");
  };
  const Allowances both{make(Allowance::Unit::kRequests, 5), make(Allowance::Unit::kRequests, 2)};
  CHECK(take_request(both) == nullptr);
  CHECK(take_request(both) == nullptr);
  CHECK(take_request(both) == both[1].get());
  CHECK(both[0]->left() == 3);  // The third took nothing.
  const Allowances tokens{make(Allowance::Unit::kTokens, 10), make(Allowance::Unit::kTokensOut, 100)};
  CHECK(take_request(tokens) == nullptr);
  for (const auto& one : tokens) one->take_tokens(7, 4);
  CHECK(tokens[0]->left() == -1);
  CHECK(tokens[1]->left() == 96);
  CHECK(take_request(tokens) == tokens[0].get());
}

}  // namespace
}  // namespace tranche::gateway
