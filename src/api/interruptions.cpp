// SPDX-License-Identifier: Apache-2.0
#include "api/interruptions.hpp"

#include <map>

namespace tranche::api {
namespace {

using wire::EndReason;

std::string whose_doing(const engine::Lease& lease, const engine::Job& job) {
  const EndReason reason = lease.reason;
  if (wire::is_platform_fault(reason)) return "the platform";
  // Where nobody waits for its place, somebody empties the node or the device.
  if (reason == EndReason::kPreempted)
    return lease.promised_to == JobId{} ? "whoever looks after the machine" : "work that goes first";
  if (reason == EndReason::kResized) return "the number of its workers";
  const bool had_a_window = lease.booking != ClaimId{} || job.ask.window.has_value();
  if (reason == EndReason::kWindowClosed)
    return had_a_window ? "the end of its window" : "what is planned for its place";
  return "your job";
}

// It ended by itself, or by its owner's wish: nothing was interrupted.
bool ran_its_course(const engine::Lease& lease) {
  return lease.reason == EndReason::kNone || lease.reason == EndReason::kStopped ||
         lease.reason == EndReason::kPaused || lease.reason == EndReason::kExited;
}

}  // namespace

std::vector<wire::Interruption> interruptions_of(const engine::State& state, const engine::Job& job) {
  // By attempt: of a gang, the member that was hit first stands for all.
  std::map<std::uint32_t, const engine::Lease*> hit;
  const auto consider = [&](const engine::Lease& lease) {
    if (lease.job != job.id || lease.live() || ran_its_course(lease)) return;
    const auto [at, fresh] = hit.emplace(lease.attempt, &lease);
    const bool earlier = lease.fault != Instant{} && at->second->fault == Instant{};
    if (!fresh && earlier) at->second = &lease;
  };
  if (job.attempts > 1) {
    for (const auto& [id, lease] : state.leases) consider(lease);
  } else {
    for (const LeaseId id : job.leases)
      if (const engine::Lease* lease = state.lease(id)) consider(*lease);
  }
  std::vector<wire::Interruption> out;
  for (const auto& [attempt, lease] : hit) {
    out.push_back({.attempt = attempt,
                   .at = lease->ended,
                   .fault = lease->fault,
                   .reason = lease->reason,
                   .whose = whose_doing(*lease, job),
                   .message = lease->message,
                   .node = state.nodes.at(lease->node).name});
  }
  return out;
}

}  // namespace tranche::api
