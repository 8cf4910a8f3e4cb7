// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trace replayed by the very engine that serves people: its admission, order, placement, lending and
// wiping, with every pool a tenant that is guaranteed its devices. Time jumps from event to event.
//
// Durations are only known when a job ends, and no job says a time limit, so nothing is planned by them.
#include "sim/replay.hpp"

namespace tranche::sim {

[[nodiscard]] ReplayRun replay_engine(const ReplayTrace& trace, const ReplayOptions& options);

}  // namespace tranche::sim
