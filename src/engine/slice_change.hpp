// SPDX-License-Identifier: Apache-2.0
#pragma once
// Leases that change while they run: slices that become smaller or larger in place, and jobs that go off
// their devices and come back to them.
#include "engine/event.hpp"
#include "engine/state.hpp"

namespace tranche::engine {

// Changes are made in such parts of what lies between two sizes.
constexpr int kResizeParts = 16;

// Of a job that is asked to leave its devices and keep its processes.
constexpr Duration kParkGrace = std::chrono::seconds(30);

// So much of the way from one ask to another: 0 is the first, kResizeParts the second.
[[nodiscard]] Ask part_of_range(const Ask& from, const Ask& to, int part);
[[nodiscard]] Ask largest(const Ask&);
// What its slices have beyond the least that the job can do with, in thousandths of a GPU.
[[nodiscard]] std::int64_t surplus_of(const Lease&, const Job&);

// It runs, its node can do it, and it was not asked in vain before.
[[nodiscard]] bool may_resize(const State&, const Job&, const Lease&);
[[nodiscard]] bool may_park(const State&, const Job&, const Lease&);

[[nodiscard]] SliceChangeAsked change_asked(
    const State&, const Lease&, const SliceChange&, JobId promised_to, std::string message);
[[nodiscard]] LeaseParkAsked park_asked(const State&,
                                        const Lease&,
                                        JobId promised_to,
                                        const std::string& why);

// The lease that its node must be told something about; zero: none.
[[nodiscard]] LeaseId lease_changed_by(const Event&);

// What the agent's report says about a change that it was told.
void append_change_answer(const State&, const Lease&, const wire::LeaseReport&, Events&);
// Who never answered, long after its grace: it is stopped like anybody else. `look_again`: when to ask next.
[[nodiscard]] Events overdue_changes(const State&, Instant now, Instant& look_again);
// The same in the state, for parking. True: it went off its devices, or back, with this report.
void note_parking(State&, Lease&, const wire::LeaseReport&, Instant at);

}  // namespace tranche::engine
