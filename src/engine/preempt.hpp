// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who gives way, when somebody has the right to what they hold: the least harm.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/event.hpp"
#include "engine/given_up.hpp"
#include "engine/state.hpp"
#include "policy/reclaim.hpp"

namespace tranche::engine {

class RoomTrial;

// Makes a node what it will be when all who were asked to leave it have, and all for whom they do are there.
using Foresee = std::function<void(RoomTrial&, NodeId, policy::NodeIndex)>;

struct Claimant {
  JobId job{};
  PartyId tenant{};
  std::uint8_t priority = 0;
  bool entitled = false;         // Within its tenant's guarantee: may take back what was lent.
  std::vector<Barred> barred{};  // Not for it, whoever leaves it.
  Foresee foresee{};
};

struct Victim {
  LeaseId lease{};
  Yield how = Yield::kStop;
  std::uint32_t milli = 0;  // Of each slice afterwards, where it only becomes smaller.
  std::int64_t vram = 0;
  NodeId goes_to{};  // Where it may go on at once; zero: where there is room.
};

struct Victims {
  NodeId node{};
  std::vector<Victim> victims{};
  std::array<policy::Harm, kYields> harm{};  // To each kind of them.
  std::string why{};
};

// Whether a lease may be ended early at all: it runs, was not booked, and its job was not stopped lately.
[[nodiscard]] bool may_be_interrupted(const State&, const Job&, const Lease&, Instant now);

// When the next lease that is spared for having been stopped lately may be asked again; never: none is.
[[nodiscard]] Instant next_interruptible(const State&, Instant now);

// Whether somebody may be asked to give way so. Asked of each lease, with what its tenant gives then in all,
// in thousandths of a GPU.
using MayTake = std::function<bool(const Job&, const Lease&, Yield how, std::int64_t given)>;

struct RoomWish {
  policy::Shape shape{};
  std::vector<Barred> barred{};
  std::size_t at_most = SIZE_MAX;  // Leases on any node.
  bool only_stops = false;         // Nobody is asked for less than all he has.
  std::set<NodeId> closed{};
  GivenUp given{};    // On other nodes, for the same.
  Foresee foresee{};  // Empty: nodes are taken as they are.
};

// How room could be made, node by node, least harm first.
[[nodiscard]] std::vector<Victims> ways_to_make_room(const State&,
                                                     Instant now,
                                                     const RoomWish&,
                                                     const MayTake&);

// The cheapest node to make room on; nothing when nobody may be asked to leave. Who was asked already is not
// asked again.
[[nodiscard]] std::optional<Victims> cheapest_victims(
    const State&, Instant now, const Claimant&, const policy::Shape&, const GivenUp& asked);

// The same for so many members of a gang, each on a node of its own that is not closed to it; nothing when
// not all of them find one.
[[nodiscard]] std::optional<std::vector<Victims>> cheapest_victims_of_gang(const State&,
                                                                           Instant now,
                                                                           const Claimant&,
                                                                           const policy::Shape&,
                                                                           std::size_t members,
                                                                           std::set<NodeId> closed,
                                                                           const GivenUp& asked);

// What they are told: a smaller slice, to go off their devices, or to end; all of a gang, which goes on with
// fewer where that is enough.
[[nodiscard]] Events ways_made(const State&, const Claimant&, const Victims&);

}  // namespace tranche::engine
