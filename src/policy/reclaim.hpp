// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which running jobs give way, and where, when somebody else has the right to their devices: the least harm.
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "policy/lending_nodes.hpp"

namespace tranche::policy {

// Harm in device-seconds, weighted; kSpared for a job that may not be touched.
using Harm = std::int64_t;
constexpr Harm kSpared = std::numeric_limits<Harm>::max();

// What stopping a gang now would waste: work since its last checkpoint and a restart, more for every time it
// was stopped before, so that the same job is not always the victim.
struct StopCost {
  std::int32_t gpus = 0;
  Seconds since_checkpoint = 0;
  Seconds restart = 0;
  std::int32_t past_preemptions = 0;
};
constexpr Harm harm_of(const StopCost& cost) {
  return static_cast<Harm>(cost.gpus) * (cost.since_checkpoint + cost.restart) * (1 + cost.past_preemptions);
}

struct Occupant {
  JobIndex job = 0;
  std::int32_t gpus = 0;  // On this node.
};

struct ReclaimView {
  const NodePool& nodes;
  const std::vector<std::vector<Occupant>>& occupants;  // By node.
  std::function<Harm(JobIndex)> harm;                   // Of the whole gang, wherever it sits.
};

struct ReclaimPlan {
  GangPlacement placement;
  std::vector<JobIndex> victims;  // Gangs whole, each once.
  Harm harm = 0;
};

// The cheapest placement of `gpus` devices that stops others; nullopt when even that finds no room.
// Small gangs: exact over all nodes. Larger than a node: whole nodes chosen one after the other.
std::optional<ReclaimPlan> cheapest_reclaim(const ReclaimView& view, std::int32_t gpus);

// A group whose reclaimed devices come back at once (a crash loop, a storm of requeues) loses the right to
// take more for a while. Every reclaim spends one unit of credit, every `refill` seconds one returns, and a
// start that lasted its minimum returns its own at once: healthy work is never slowed.
class ReclaimCredit {
 public:
  ReclaimCredit() = default;
  ReclaimCredit(std::int32_t limit, Seconds refill) : limit_(limit), refill_(refill), credit_(limit) {}
  [[nodiscard]] bool may_reclaim(Seconds now) const { return available(now) > 0; }
  void spend(Seconds now);
  void give_back(Seconds now);

 private:
  [[nodiscard]] std::int32_t available(Seconds now) const;
  std::int32_t limit_ = 0;
  Seconds refill_ = 1;
  std::int32_t credit_ = 0;
  Seconds since_ = 0;  // Refills are counted from here.
};

// Keeps what preemption wastes within a share of all device time held. Guarantees come back in any case;
// ending loans for the sake of others happens only while the budget lasts.
class LossBudget {
 public:
  explicit LossBudget(std::int32_t permyriad = 30) : permyriad_(permyriad) {}
  void change_rate(std::int32_t gpus, Seconds now);
  void lose(std::int64_t gpu_seconds) { lost_ += gpu_seconds; }
  [[nodiscard]] bool allows(Harm harm, Seconds now) const;

 private:
  static constexpr std::int64_t kStartingCredit = 100 * 600;  // Device-seconds; nothing is held at first.
  std::int32_t permyriad_ = 0;
  std::int64_t held_ = 0;
  std::int64_t lost_ = 0;
  std::int32_t rate_ = 0;
  Seconds since_ = 0;
};

}  // namespace tranche::policy
