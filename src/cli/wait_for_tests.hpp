// SPDX-License-Identifier: Apache-2.0
#pragma once
// Waits for tests that were ordered, says how far they are, and shows what they found.
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "cli/session.hpp"
#include "wire/test_progress.hpp"

namespace tranche::cli {

// `path` answers with a NodeTestView, and did so with `before` when nothing was ordered yet: a report that
// stood there already says nothing of this test. Ends with a Failure of code 1 when a device is not fit.
void wait_for_tests(Session& session,
                    const std::string& path,
                    const std::vector<DeviceId>& ordered,
                    const wire::NodeTestView& before);

}  // namespace tranche::cli
