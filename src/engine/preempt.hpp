// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who gives way, when somebody has the right to what they hold: the least harm.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/event.hpp"
#include "engine/state.hpp"

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
  std::string why{};
};

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
