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
  policy::Harm harm = 0;         // To those that have to stop,
  policy::Harm shrink_harm = 0;  // and to those that go on with fewer members.
  std::string why{};
};

// Whether a lease may be ended early at all: it runs, was not booked, and its job was not stopped lately.
[[nodiscard]] bool may_be_interrupted(const State&, const Job&, const Lease&, Instant now);

// When the next lease that is spared for having been stopped lately may be asked again; never: none is.
[[nodiscard]] Instant next_interruptible(const State&, Instant now);

// How room could be made for the shape, node by node, least harm first; `at_most` leases on any of them.
// Whoever has more members than it needs gives some of them before anybody is stopped.
// Asked of each lease, with what its tenant gives beside it without being stopped, in thousandths of a GPU.
using MayTake = std::function<bool(const Job&, const Lease&, std::int64_t given)>;
[[nodiscard]] std::vector<Victims> ways_to_make_room(
    const State&, Instant now, const policy::Shape&, const MayTake&, std::size_t at_most);

// The cheapest node to make room on; nothing when nobody may be asked to leave.
[[nodiscard]] std::optional<Victims> cheapest_victims(const State&,
                                                      Instant now,
                                                      const Claimant&,
                                                      const policy::Shape&);

// The leases of whoever makes way are ended: all of a gang, which goes on with fewer where that is enough.
[[nodiscard]] Events ways_made(const State&, const Claimant&, const Victims&);

}  // namespace tranche::engine
