// SPDX-License-Identifier: Apache-2.0
#pragma once
// A replay's report as one HTML file that needs nothing else: figures, a chart of waits by pool, and how
// waits are spread. Marked as simulated.
#include <string>

#include "sim/replay.hpp"

namespace tranche::sim {

std::string replay_html(const ReplayTrace& trace,
                        const ReplayRun& run,
                        const ReplayReport& report,
                        ReplayMode mode);

}  // namespace tranche::sim
