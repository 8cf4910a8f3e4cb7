// SPDX-License-Identifier: Apache-2.0
#pragma once
// One-pass packing with a queue and consolidation: what does not fit may wait a while, and running tasks may
// move to make room. Reported apart from the one-pass figures, with the number of moves.
#include "sim/pack_run.hpp"

namespace tranche::sim {

PackRun run_consolidated(const PackNodes& nodes, const PackTasks& tasks, const PackOptions& options);

}  // namespace tranche::sim
