// SPDX-License-Identifier: Apache-2.0
#include "engine/why.hpp"

#include "wire/fields.hpp"

namespace tranche::engine {
namespace {

constexpr std::size_t kAheadShown = 5;

}  // namespace

wire::Why explain(const State& state, const Actor& actor, const Job& job) {
  using wire::WaitReason;
  wire::Why why{.job = job.id, .state = std::string(wire::name_of(job.state)), .since = job.submitted};
  if (job.state != JobState::kPending) {
    why.message = is_over(job.state) ? text(job.id) + " has ended" : text(job.id) + " is running";
    return why;
  }
  why.reason = WaitReason::kNoCapacityConnected;
  why.message = "no capacity connected: no node has joined this platform yet";
  // It was admitted, so these were all checked and passed.
  why.not_the_cause = {WaitReason::kQuota, WaitReason::kBudget, WaitReason::kPolicy};
  for (const auto& [id, other] : state.jobs) {
    if (id >= job.id) break;
    if (other.state != JobState::kPending || other.ask.priority < job.ask.priority) continue;
    ++why.ahead_count;
    if (why.ahead.size() == kAheadShown) continue;
    const bool visible = can_see(state, actor, other);
    why.ahead.push_back({.job = visible ? id : JobId{},
                         .name = visible ? other.name : "",
                         .party = visible ? path_of(state, other.owner) : "",
                         .gpu_milli = other.ask.gpu_milli()});
  }
  return why;
}

}  // namespace tranche::engine
