// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is to be expected, in units: how long so many frames take and what they cost, by when a job must be at
// work to keep its deadline, how many requests an hour will bring.
#include <optional>
#include <string>

#include "engine/state.hpp"
#include "wire/api_job.hpp"

namespace tranche::engine {

// By the last job of the same name of this tenant, else by all that it did in the last month; nothing: it
// never did any.
[[nodiscard]] std::optional<wire::UnitEstimate> unit_estimate(
    const State&, PartyId owner, const std::string& job_name, WorkUnit unit, std::int64_t count, Instant at);

// The latest start that keeps the job's deadline. A part of a group counts all that is left of the whole, on
// as many slices as it has now.
[[nodiscard]] std::optional<Instant> latest_start(const State&, const Job&);

// In the hour that starts then, by the same hours of earlier weeks; by unit.
[[nodiscard]] UnitCounts expected_units(const State&, PartyId tenant, Instant hour);

}  // namespace tranche::engine
