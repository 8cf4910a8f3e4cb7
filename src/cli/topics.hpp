// SPDX-License-Identifier: Apache-2.0
#pragma once
// Under which heading does the list of all commands show each?
#include "cli/command.hpp"

namespace tranche::cli {

void arrange_by_topic(const Command& root);

}  // namespace tranche::cli
