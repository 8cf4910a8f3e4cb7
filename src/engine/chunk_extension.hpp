// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which chunk that runs gets more units, so that its sandbox goes on without a lease in between: always the
// one that would be idle first, and near the end as much as makes all end together. Only while nobody else
// waits, and not for ever: at the end of a lease everybody's turn is looked at anew.
#include "engine/event.hpp"
#include "engine/job_group.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// One extension, or nothing.
[[nodiscard]] Events next_extension(const State&, const JobGroup&, Instant now);

}  // namespace tranche::engine
