// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the members of a gang can reach each other: decided by what the agents of their nodes offer.
#include <optional>
#include <set>

#include "base/ids.hpp"
#include "wire/ask.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct State;
struct Job;

// Better said when the job is submitted than found out by members that wait for each other for ever.
[[nodiscard]] std::optional<wire::Refusal> gang_network_problem(const State&, const wire::Ask&);
// Nodes from which other members could not be reached.
void close_unreachable(const State&, const Job&, std::set<NodeId>& closed);

}  // namespace tranche::engine
