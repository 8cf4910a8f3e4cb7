// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows for a job of many units when something of it has changed.
#include "engine/event.hpp"
#include "engine/job_group.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// One step: it ends, stops what nobody needs any more, gives a chunk more to do, or forms another.
[[nodiscard]] Events advance_group(const State&, const Envelope&, const JobGroup&);
// From a snapshot in which groups kept no sums: what is known of their chunks.
void sum_up(const State&, JobGroup&);

}  // namespace tranche::engine
