// SPDX-License-Identifier: Apache-2.0
#include "base/id_table.hpp"

#include <doctest/doctest.h>
#include <map>

#include "base/random.hpp"

namespace tranche {
namespace {

TEST_CASE("id table: does what a map does, under any mix of inserts and erasures") {
  Random random(11);
  IdTable<std::uint64_t> table;
  std::map<std::uint64_t, std::uint64_t> model;
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t id = 1 + random.below(step % 1000 < 500 ? 3000 : 40);
    if (random.below(2) == 0) {
      table.insert(id, id * 3);
      model.emplace(id, id * 3);
    } else {
      CHECK(table.erase(id) == (model.erase(id) == 1));
    }
    const std::uint64_t* found = table.find(id);
    CHECK((found != nullptr) == model.contains(id));
    if (found != nullptr) CHECK(*found == id * 3);
  }
  std::vector<std::uint64_t> expected;
  for (const auto& [id, value] : model) expected.push_back(id);
  CHECK(table.ids() == expected);
  CHECK(table.size() == model.size());
  const IdTable<std::uint64_t> copy = table;
  for (const std::uint64_t id : expected) CHECK(copy.find(id) != nullptr);
}

TEST_CASE("id table: nobody has the id zero, however full it is") {
  IdTable<std::uint64_t> table;
  for (std::uint64_t id = 1; id <= 100; ++id) {
    table.insert(id, id);
    CHECK(table.find(0) == nullptr);
    CHECK_FALSE(table.erase(0));
    CHECK(table.size() == id);
  }
  CHECK(table.ids().size() == 100);
}

}  // namespace
}  // namespace tranche
