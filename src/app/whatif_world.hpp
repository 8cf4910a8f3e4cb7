// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a what-if takes its world from: a workload file, or a server's own past.
#include <string>
#include <vector>

#include "sim/whatif.hpp"

namespace tranche::app {

struct WhatIfSource {  // As the command line says it; exactly one of `jobs` and `data`.
  std::string jobs{};
  std::string data{};
  std::vector<std::string> fleet{};   // Instead of the nodes known there.
  std::vector<std::string> shares{};  // TENANT=GUARANTEED..LIMIT
  std::string last{};                 // Only what was submitted in so much time before the end: 7d.
};
// Throws std::invalid_argument with what is missing or makes no sense.
[[nodiscard]] sim::WhatIfWorld world_of(const WhatIfSource& source);

// Every job of the journal that ran, when it came, how long it ran and how busy it kept its devices by its
// meters; the fleet is the nodes known at the end. Reads beside a running server. Throws when the folder
// holds no journal.
[[nodiscard]] sim::WhatIfWorld journaled_world(const std::string& data_folder);

}  // namespace tranche::app
