// SPDX-License-Identifier: Apache-2.0
#include "server/log_names.hpp"

#include <doctest/doctest.h>
#include <string>

namespace tranche::server {
namespace {

TEST_CASE("log names: remembers no more than it may, and asks again for what it forgot") {
  std::vector<LeaseId> asked;
  LogNames names(3, [&](LeaseId lease) { asked.push_back(lease); });
  for (std::uint64_t i = 1; i <= 1000; ++i) names.put({i}, LogPlace{.name = {.job = {i}}});
  CHECK(names.size() == 3);
  int written = 0;
  names.with({1000}, [&](const auto& place) { written += place->name.job == JobId{1000} ? 1 : 0; });
  CHECK(written == 1);
  CHECK(asked.empty());
  names.with({1}, [&](const auto& place) { written += place->name.job == JobId{1} ? 1 : 0; });
  CHECK(asked == std::vector<LeaseId>{{1}});
  CHECK(written == 1);
  names.put({1}, LogPlace{.name = {.job = {1}}});
  CHECK(written == 2);
}

TEST_CASE("log names: what waits for a name is written in the order it came") {
  int asked = 0;
  LogNames names(1, [&](LeaseId) { ++asked; });
  std::string order;
  for (const char letter : std::string("abc"))
    names.with({7}, [&, letter](const auto& place) { order += place ? letter : '-'; });
  CHECK(asked == 1);
  for (std::uint64_t i = 20; i < 30; ++i) names.put({i}, std::nullopt);  // Others do not push it out.
  names.put({7}, LogPlace{});
  names.with({7}, [&](const auto&) { order += 'd'; });
  CHECK(order == "abcd");
}

TEST_CASE("log names: a lease that does not exist is answered so, and asked for once") {
  int asked = 0;
  LogNames names(8, [&](LeaseId) { ++asked; });
  int unknown = 0;
  names.with({5}, [&](const auto& place) { unknown += place ? 0 : 1; });
  names.put({5}, std::nullopt);
  names.with({5}, [&](const auto& place) { unknown += place ? 0 : 1; });
  CHECK(asked == 1);
  CHECK(unknown == 2);
}

}  // namespace
}  // namespace tranche::server
