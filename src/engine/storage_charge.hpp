// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keeping volumes costs: by time and size set aside, whether a job uses them or not.
#include <vector>

#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

constexpr Duration kStorageEvery = std::chrono::hours(1);  // How often it is charged.

// What is due for one volume until `now`, a charge for each day; remainders are carried.
[[nodiscard]] std::vector<StorageCharged> storage_charges(const State&, const Volume&, Instant now);
void append_storage_due(const State&, Instant now, Events&);

[[nodiscard]] Money storage_hourly(const State&, const Volume&, Instant at);
// Whether who would pay can: a day of it must be covered when it is created.
[[nodiscard]] std::optional<Refusal> storage_problem(const State&, const Volume&, Instant at);

}  // namespace tranche::engine
