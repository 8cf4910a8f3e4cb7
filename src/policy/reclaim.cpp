// SPDX-License-Identifier: Apache-2.0
#include "policy/reclaim.hpp"

#include <algorithm>

namespace tranche::policy {
namespace {

bool contains(const std::vector<JobIndex>& jobs, JobIndex job) {
  return std::find(jobs.begin(), jobs.end(), job) != jobs.end();
}

// The cheapest set of occupants of one node that frees at least `need` devices there. A node holds few jobs
// and few devices, so every count of freed devices is solved exactly.
class NodeSearch {
 public:
  explicit NodeSearch(const ReclaimView& view) : view_(view) {}

  // Harm below `limit`, or kSpared. Victims of `already` cost nothing: they leave anyway.
  Harm solve(std::int32_t node, std::int32_t gpus, const std::vector<JobIndex>& already, Harm limit) {
    candidates_.clear();
    std::int32_t need = gpus - view_.nodes.free(node), reachable = 0;
    for (const Occupant& occupant : view_.occupants[static_cast<std::size_t>(node)]) {
      if (contains(already, occupant.job)) {
        need -= occupant.gpus;
        continue;
      }
      const Harm harm = view_.harm(occupant.job);
      if (harm == kSpared || harm >= limit) continue;
      candidates_.push_back({occupant, harm});
      reachable += occupant.gpus;
    }
    if (need <= 0) return 0;
    if (reachable < need) return kSpared;
    fill(static_cast<std::size_t>(need));
    return best_[static_cast<std::size_t>(need)];
  }

  // The set behind the last solve() that found one.
  void append_victims(std::int32_t need_after_free, std::vector<JobIndex>& victims) const {
    if (need_after_free <= 0) return;
    auto left = static_cast<std::size_t>(need_after_free);
    for (std::size_t i = candidates_.size(); i > 0 && left > 0; --i) {
      if (!taken_[(i - 1) * width_ + left]) continue;
      victims.push_back(candidates_[i - 1].occupant.job);
      left -= std::min(left, static_cast<std::size_t>(candidates_[i - 1].occupant.gpus));
    }
  }

 private:
  struct Candidate {
    Occupant occupant;
    Harm harm = 0;
  };

  void fill(std::size_t need) {
    width_ = need + 1;
    best_.assign(width_, kSpared);
    best_[0] = 0;
    taken_.assign(candidates_.size() * width_, false);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      for (std::size_t count = need; count > 0; --count) {
        const std::size_t before =
            count - std::min(count, static_cast<std::size_t>(candidates_[i].occupant.gpus));
        if (best_[before] == kSpared) continue;
        const Harm with = best_[before] + candidates_[i].harm;
        if (with < best_[count]) {
          best_[count] = with;
          taken_[i * width_ + count] = true;
        }
      }
    }
  }

  const ReclaimView& view_;
  std::size_t width_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<Harm> best_;
  std::vector<bool> taken_;
};

std::int32_t need_on(const ReclaimView& view,
                     std::int32_t node,
                     std::int32_t gpus,
                     const std::vector<JobIndex>& already) {
  std::int32_t need = gpus - view.nodes.free(node);
  for (const Occupant& occupant : view.occupants[static_cast<std::size_t>(node)]) {
    if (contains(already, occupant.job)) need -= occupant.gpus;
  }
  return need;
}

// Adds the cheapest node for `gpus` devices to the plan; false when there is none.
bool add_node(const ReclaimView& view, NodeSearch& search, std::int32_t gpus, ReclaimPlan& plan) {
  Harm best = kSpared;
  std::int32_t chosen = -1;
  for (std::int32_t node = 0; node < view.nodes.nodes(); ++node) {
    if (plan.placement.uses(node)) continue;
    const Harm harm = search.solve(node, gpus, plan.victims, best);
    if (harm < best) {
      best = harm;
      chosen = node;
      if (best == 0) break;
    }
  }
  if (chosen < 0) return false;
  search.solve(chosen, gpus, plan.victims, kSpared);
  const std::int32_t need = need_on(view, chosen, gpus, plan.victims);
  search.append_victims(need, plan.victims);
  plan.placement.add({chosen, gpus});
  plan.harm += best;
  return true;
}

}  // namespace

std::optional<ReclaimPlan> cheapest_reclaim(const ReclaimView& view, std::int32_t gpus) {
  const std::int32_t per_node = view.nodes.gpus_per_node();
  ReclaimPlan plan;
  NodeSearch search(view);
  std::int32_t left = gpus;
  while (left > 0) {
    const std::int32_t here = std::min(left, per_node);
    if (!add_node(view, search, here, plan)) return std::nullopt;
    left -= here;
  }
  return plan;
}

void LossBudget::change_rate(std::int32_t gpus, Seconds now) {
  held_ += (now - since_) * rate_;
  since_ = now;
  rate_ += gpus;
}

bool LossBudget::allows(Harm harm, Seconds now) const {
  const std::int64_t held = held_ + (now - since_) * rate_;
  return lost_ + harm <= kStartingCredit + held / 10'000 * permyriad_;
}

std::int32_t ReclaimCredit::available(Seconds now) const {
  const Seconds refilled = std::min<Seconds>((now - since_) / refill_, limit_);
  return std::min(limit_, credit_ + static_cast<std::int32_t>(std::max<Seconds>(refilled, 0)));
}

void ReclaimCredit::spend(Seconds now) {
  const std::int32_t left = available(now);
  // A full purse starts its clock at the first coin spent; otherwise the refill in progress goes on.
  since_ = left == limit_ ? now : now - (now - since_) % refill_;
  credit_ = left - 1;
}

void ReclaimCredit::give_back(Seconds now) {
  const std::int32_t left = available(now);
  since_ = now - (now - since_) % refill_;
  credit_ = std::min(limit_, left + 1);
}

}  // namespace tranche::policy
