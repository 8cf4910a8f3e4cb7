// SPDX-License-Identifier: Apache-2.0
#include "agent/job_network.hpp"

#include <doctest/doctest.h>

namespace tranche::agent {
namespace {

TEST_CASE("job network: a network is written with its length and nothing beyond it") {
  for (const char* good : {"10.1.0.0/16", "203.0.113.7", "203.0.113.7/32", "0.0.0.0/0"})
    CHECK_MESSAGE(is_network(good), good);
  for (const char* bad :
       {"", "10.1", "10.1.0.0/", "10.1.0.0/33", "10.1.0.0/-1", "10.1.0.1/16", "10.1.0.0/16 ", "fd00::/8"})
    CHECK_MESSAGE(!is_network(bad), bad);
}

TEST_CASE("job network: the node's own addresses are closed before anything is allowed") {
  const std::string filter =
      network_filter({.addresses = {"192.0.2.2"}, .networks = {"192.0.2.0/24"}}, {"10.1.0.0/16"});
  const auto at = [&](const char* text) { return filter.find(text); };
  CHECK(at("policy drop") != std::string::npos);
  CHECK(at("@own reject") < at("@allowed accept"));
  CHECK(at("@allowed accept") < at("@closed reject"));
  CHECK(at("@closed reject") < at("nfproto ipv4 accept"));
  CHECK(at("set own { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.2 } }") !=
        std::string::npos);
  CHECK(at("192.0.2.0/24 } }") != std::string::npos);
  // A node without addresses has sets without members.
  CHECK(network_filter({}, {}).find("elements = {  }") == std::string::npos);
}

}  // namespace
}  // namespace tranche::agent
