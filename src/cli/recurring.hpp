// SPDX-License-Identifier: Apache-2.0
#pragma once
// How jobs that run again and again are shown.
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "wire/recurring.hpp"

namespace tranche::cli {

void print_recurring(Session& session, const std::string& body, const std::vector<wire::RecurringView>& jobs);

}  // namespace tranche::cli
