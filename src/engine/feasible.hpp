// SPDX-License-Identifier: Apache-2.0
#pragma once
// Could the nodes that are known ever run this? What they cannot, however long it waits, is refused when it
// is asked for, with what would be possible.
#include <optional>

#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

// Nothing also when no node has joined yet: then it waits for the first.
[[nodiscard]] std::optional<wire::Refusal> impossibility(const State&, PartyId owner, const Ask&);

// A job that wants its nodes for itself takes all that the largest of them have.
[[nodiscard]] Ask with_whole_nodes(const State&, const Ask&);

}  // namespace tranche::engine
