// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits for tests that were ordered, says how far they are, and shows what they found.
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "cli/session.hpp"

namespace tranche::cli {

// `path` answers with a NodeTestView. Ends with a Failure of code 1 when a device is not fit.
void wait_for_tests(Session& session, const std::string& path, const std::vector<DeviceId>& ordered);

}  // namespace tranche::cli
