// SPDX-License-Identifier: Apache-2.0
#pragma once
// Admission: may this job be taken in? Walks job → user → subscriber → tenant → platform; the first broken
// rule is the one named.
//
// A job holds its quota from admission to its end, so what is admitted can never exceed a limit, at any
// level.
#include "base/money.hpp"
#include "base/result.hpp"
#include "engine/job.hpp"
#include "engine/state.hpp"
#include "wire/ask.hpp"
#include "wire/refusal.hpp"

namespace tranche::engine {

struct Admitted {
  Admission admission = Admission::kWithinQuota;
  Money hold{};     // Set aside for work on demand.
  Duration time{};  // The limits in force: those asked for, or the smallest of the tree.
  Money spend{};
};

[[nodiscard]] Result<Admitted, Refusal> admit(const State&, PartyId owner, const Ask&, Instant at);
// The same for a chunk. The spend limit of its group, which was admitted, binds it: what the tree allows one
// job since is for those that are submitted since.
[[nodiscard]] Result<Admitted, Refusal> admit_chunk(const State&, const JobGroup&, Instant at);
// The same for a job that was put aside, beside what it holds still.
[[nodiscard]] Result<Admitted, Refusal> readmit(const State&, const Job&, Instant at);
// What a job that was put aside holds: it counts as a job, and its storage is there.
[[nodiscard]] Ask kept_while_paused(const Ask&);

// Whether a job that has `now` may have `wanted`, more of the same, within all that binds it; `granted` is
// what was given to others in the same decision.
struct Grown {
  PartyId owner{};
  Ask more{};
};
[[nodiscard]] bool may_grow(const State&,
                            PartyId owner,
                            const Ask& now,
                            const Ask& wanted,
                            const std::vector<Grown>& granted,
                            Instant at);

// Add to, or take from, the usage of the owner and everyone above.
void hold_quota(State&, PartyId owner, const Ask&, Money hold);
void release_quota(State&, PartyId owner, const Ask&, Money hold);

}  // namespace tranche::engine
