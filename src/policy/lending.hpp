// SPDX-License-Identifier: Apache-2.0
#pragma once
// Guaranteed devices that stand idle are lent, and come back when their owner asks.
//
// Every group has a guarantee. What runs within it is protected; what runs beyond it is borrowed. A loan has
// a term: while others wait who have had less, a borrower keeps its devices for the term and no longer, and
// each further loan of the same job is longer, so that a long job is stopped a handful of times and not for
// ever.
#include <cstdint>
#include <span>
#include <vector>

#include "policy/backfill.hpp"
#include "policy/lending_nodes.hpp"

namespace tranche::policy {

struct LendingRules {
  Seconds checkpoint_every = 600;
  Seconds restart = 60;
  Seconds grace = 30;             // Between the notice to a victim and the start of who takes over.
  Seconds minimum_run = 600;      // A borrower is left alone this long, once it has been stopped before.
  std::int32_t move_weight = 20;  // Harm of moving a protected job, against stopping a borrower.
  Seconds usage_half_life = 86400;
  Seconds loan_term = 7200;              // Device time a job may borrow before it gives way to fresh work.
  std::int32_t term_growth = 4;          // Each term is this many times the one before.
  Seconds aged_after = 2 * 86400;        // Waited this long: ahead of all others, and its loan has no term.
  Seconds aged_takes_after = 7 * 86400;  // Waited this long: takes from younger borrowers.
  Seconds moves_every = 3600;
  std::int32_t pressing_after = 4;   // A gang that waited this many times its predicted run presses.
  std::int32_t loss_permyriad = 40;  // Of held device time; loans are ended early only within this.
  Seconds wake_every = 60;           // While somebody waits a pass is made at least this often.
  std::int32_t reclaim_credit = 64;  // Reclaims a group may spend on work that does not last.
  Seconds reclaim_refill = 300;
};

// A queued job of the group, or one that runs on borrowed devices and would become protected where it is.
struct GuaranteeClaimant {
  JobIndex job = 0;
  std::int32_t gpus = 0;
  Seconds predicted = 0;
};

struct GuaranteeView {
  std::int32_t guarantee = 0;
  std::int32_t in_use = 0;                       // Protected devices, promised ones too.
  std::span<const Release> protected_releases;   // When protected devices are expected back.
  std::span<const GuaranteeClaimant> claimants;  // In the order they may claim.
  Seconds now = 0;
};

// Who of the claimants is under the guarantee now: EASY in a cluster of that size which nobody else uses.
// Jobs larger than the guarantee are passed over; they can only borrow.
void entitled_jobs(const GuaranteeView& view, std::vector<JobIndex>& entitled);

// How many loan terms a job has used up: 0 while in its first. Fresh work is 0, too.
std::int32_t terms_used(Seconds has_run, const LendingRules& rules);

// The place of a waiting job in the one order of all who would borrow; smaller goes first.
struct BorrowKey {
  std::int32_t tier = 0;        // 0: aged; then by terms used and priority.
  std::int32_t group_rank = 0;  // Fair share: who borrowed less for its guarantee.
  JobIndex job = 0;             // Order of submission.
  auto operator<=>(const BorrowKey&) const = default;
};

}  // namespace tranche::policy
