// SPDX-License-Identifier: Apache-2.0
#include "agent/chores.hpp"

#include <doctest/doctest.h>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tranche::agent {
namespace {

TEST_CASE("chores: one that hangs holds up its own lane alone, and what follows is done by the caller") {
  std::promise<void> release;
  std::promise<void> rung;
  int bells = 0;
  Chores chores([&] {
    if (bells++ == 0) rung.set_value();
  });
  std::vector<std::string> order;
  const auto caller = std::this_thread::get_id();
  chores.add("slow", [&] {
    release.get_future().wait();
    return [&] { order.push_back("slow"); };
  });
  chores.add("quick", [&] {
    return [&] {
      CHECK(std::this_thread::get_id() == caller);
      order.push_back("quick");
    };
  });
  rung.get_future().wait();
  chores.finish();
  CHECK(order == std::vector<std::string>{"quick"});
  release.set_value();
  while (order.size() < 2) {
    std::this_thread::yield();
    chores.finish();
  }
  CHECK(order.back() == "slow");
}

}  // namespace
}  // namespace tranche::agent
