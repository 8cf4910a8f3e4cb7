// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rules of the tree that speak of places: which nodes they leave to a job.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/state.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

// Whether any rule above the party speaks of nodes: most say nothing, and need no closer look.
[[nodiscard]] bool has_place_rules(const State&, PartyId party);

// The first rule, from the owner up, that keeps such a job off a node at that time; nothing: it may run
// there.
struct KeptOff {
  const Rule* rule = nullptr;
  PartyId where{};
};
[[nodiscard]] std::optional<KeptOff> kept_off(
    const State&, PartyId owner, const Ask&, const Node&, Instant at);

// Adds the nodes that a job is kept off.
void close_forbidden(const State&, const Job&, Instant at, std::set<NodeId>& closed);

// Why a job is not admitted: there are nodes, and it is kept off every one that it could be meant for.
[[nodiscard]] std::optional<wire::Refusal> place_problem(const State&, PartyId owner, const Ask&, Instant at);
// What keeps a job that waits off nodes, for people; empty: nothing does.
[[nodiscard]] std::string places_text(const State&, const Job&, Instant at);

[[nodiscard]] std::string place_text(const wire::Place&);  // "site eu-west or eu-north, rack=r7"

}  // namespace tranche::engine
