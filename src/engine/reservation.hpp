// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the first job that must wait is promised: the nodes that can take it soonest, judged by the time
// limits of what runs there. Others use them only if they are gone by then.
#include <optional>
#include <set>

#include "engine/state.hpp"

namespace tranche::engine {

struct Reservation {
  JobId job{};
  std::set<NodeId> nodes{};  // One, or one for each member of a gang.
  Instant at{};
};

// Nothing when no time limit bounds the wait. Asks the capacity as it is in a pass, and leaves it so.
[[nodiscard]] std::optional<Reservation> reservation_for(
    const State&, Capacity&, Instant now, const Job&, const policy::Shape&);

}  // namespace tranche::engine
