// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of the guard suite as they come in, and the parts they come from.
#include <string>
#include <vector>

#include "bench/bench.hpp"

namespace tranche::bench {

// Says each row as soon as it is known: the whole suite takes minutes.
struct Rows {
  std::vector<Row> rows;
  void add(const std::string& what,
           double value,
           const std::string& unit,
           double goal,
           Better better,
           const std::string& peer = "");
};

struct GuardPart {
  std::string name;
  int seconds;  // About, on a quiet host.
  void (*run)(Rows& out);
};
std::vector<GuardPart> guard_memory_parts();

}  // namespace tranche::bench
