// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who gives way, when somebody has the right to what they hold: the least harm.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/event.hpp"
#include "engine/state.hpp"
#include "policy/reclaim.hpp"

namespace tranche::engine {

struct Claimant {
  JobId job{};
  PartyId tenant{};
  std::uint8_t priority = 0;
  bool entitled = false;  // Within its tenant's guarantee: may take back what was lent.
};

struct Victims {
  NodeId node{};
  std::vector<LeaseId> victims{};
  policy::Harm harm = 0;
  std::string why{};
};

// Whether a lease may be ended early at all: it runs, was not booked, and its job was not stopped lately.
[[nodiscard]] bool may_be_interrupted(const Job&, const Lease&, Instant now);

// When the next lease that is spared for having been stopped lately may be asked again; never: none is.
[[nodiscard]] Instant next_interruptible(const State&, Instant now);

// How room could be made for the shape, node by node, least harm first; `at_most` leases on any of them.
using MayStop = std::function<bool(const Lease&)>;
[[nodiscard]] std::vector<Victims> ways_to_make_room(
    const State&, Instant now, const policy::Shape&, const MayStop&, std::size_t at_most);

// The cheapest node to make room on; nothing when nobody may be asked to leave.
[[nodiscard]] std::optional<Victims> cheapest_victims(const State&,
                                                      Instant now,
                                                      const Claimant&,
                                                      const policy::Shape&);

[[nodiscard]] LeaseRevoked revocation_for(const State&,
                                          const Lease&,
                                          const Claimant&,
                                          const std::string& why);

}  // namespace tranche::engine
