// SPDX-License-Identifier: Apache-2.0
#pragma once
// The scheduling pass: who is next, where it goes, who gives way. Pure and bounded by a count of decisions;
// the next pass goes on where this one stopped.
#include "engine/state.hpp"

namespace tranche::engine {

// Epochs that one record may give to leases; they grow with the journal.
constexpr std::uint64_t kEpochsOfRecord = 512;

// Who has waited so long goes first, in the order of submission.
constexpr Duration kAgedAfter = std::chrono::hours(48);

// Whether a Schedule command could decide anything now.
[[nodiscard]] bool schedule_due(const State&, Instant now);

// Whether the job's tenant has this much of its guarantee left: then it may take back what was lent.
[[nodiscard]] bool within_guarantee(const State&, PartyId tenant, std::int64_t gpu_milli);

// When the lease will end at the latest; the far future where nothing bounds it.
[[nodiscard]] Instant expected_end(const State&, const Lease&);

}  // namespace tranche::engine
