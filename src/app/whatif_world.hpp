// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server's own past as the workload of a what-if.
#include <string>

#include "sim/whatif.hpp"

namespace tranche::app {

// Every job of the journal that ran, when it came, how long it ran and how busy it kept its devices by its
// meters; the fleet is the nodes known at the end. Reads beside a running server. Throws when the folder
// holds no journal.
[[nodiscard]] sim::WhatIfWorld journaled_world(const std::string& data_folder);

}  // namespace tranche::app
