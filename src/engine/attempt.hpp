// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows for a job when one of its leases ends: success, another attempt, or a verdict.
#include <string>

#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

inline void append(Events& events, Events more) {
  events.insert(events.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// The nth lease that a record gives, from one on: what follows from its job and from its number.
[[nodiscard]] LeaseGranted grant_for(const State&, const Job&, std::uint32_t rank, std::uint64_t nth);

// The report that a lease is over, and what that means for its job and the other members of its gang.
[[nodiscard]] Events lease_over(
    const State&, const Envelope&, const Lease&, wire::LeaseReport report, std::uint64_t link_sequence);

// Tells the agent to end a lease in the way its workload asks for.
[[nodiscard]] LeaseRevoked revocation(
    const State&, const Lease&, EndReason reason, std::string message, JobId promised_to);

// Whether an attempt that ended so counts against the retries that the job asked for.
[[nodiscard]] bool is_own_error(EndReason);

// What becomes of a job that is to be paused, when nothing of it runs: it waits for a person; a chunk ends,
// and its units wait in its stead.
[[nodiscard]] Event pause_of(const State&, const Job&);

// It is told to save itself, or does so by itself and says so.
[[nodiscard]] bool saves_itself(const Job&, const Lease& first);

// How long its work is given to save itself before it is ended.
[[nodiscard]] Duration grace_of(const Job&);

// Nothing of it is left on its devices.
void release_slices(State&, const Lease&, const Ask&);

// A machine that was restarted holds nothing of what it held before.
void release_after_reboot(State&, NodeId node);

}  // namespace tranche::engine
