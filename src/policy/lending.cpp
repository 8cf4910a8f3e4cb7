// SPDX-License-Identifier: Apache-2.0
#include "policy/lending.hpp"

#include <algorithm>

namespace tranche::policy {

void entitled_jobs(const GuaranteeView& view, std::vector<JobIndex>& entitled) {
  entitled.clear();
  std::int32_t left = view.guarantee - view.in_use;
  std::size_t i = 0;
  std::vector<Release> releases(view.protected_releases.begin(), view.protected_releases.end());
  for (; i < view.claimants.size() && left > 0; ++i) {
    const GuaranteeClaimant& claimant = view.claimants[i];
    if (claimant.gpus > view.guarantee) continue;
    if (claimant.gpus > left) break;
    entitled.push_back(claimant.job);
    left -= claimant.gpus;
    releases.push_back({view.now + claimant.predicted, claimant.gpus});
  }
  if (i == view.claimants.size() || left <= 0) return;
  BackfillGate gate(reserve(view.claimants[i].gpus, left, releases, view.now), view.now);
  for (++i; i < view.claimants.size() && left > 0; ++i) {
    const GuaranteeClaimant& claimant = view.claimants[i];
    if (claimant.gpus > left || !gate.admits(claimant.gpus, claimant.predicted)) continue;
    entitled.push_back(claimant.job);
    left -= claimant.gpus;
    gate.use(claimant.gpus, claimant.predicted);
  }
}

std::int32_t terms_used(Seconds has_run, const LendingRules& rules) {
  std::int32_t used = 0;
  Seconds until = rules.loan_term;
  while (has_run >= until && used < 20) {
    until *= rules.term_growth;
    ++used;
  }
  return used;
}

}  // namespace tranche::policy
