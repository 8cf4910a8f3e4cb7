// SPDX-License-Identifier: Apache-2.0
#pragma once
// Room for a job that fits nowhere although enough is idle in sum: a few others go on elsewhere.
#include <optional>
#include <set>

#include "engine/preempt.hpp"

namespace tranche::engine {

constexpr std::size_t kMovesMax = 2;  // For one job.

// Whom to move from which node so that the shape fits there: only work that said it may be stopped, is not
// more urgent than the job, finds another place at once, and was not asked already. Asks the capacity as it
// is in a pass, and leaves it so. No room is made on a node that is closed to the job.
[[nodiscard]] std::optional<Victims> cheapest_moves(const State&,
                                                    Capacity&,
                                                    Instant now,
                                                    const Claimant&,
                                                    const policy::Shape&,
                                                    const GivenUp& asked,
                                                    const std::set<NodeId>& closed);

}  // namespace tranche::engine
