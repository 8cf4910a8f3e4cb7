// SPDX-License-Identifier: Apache-2.0
// What an agent tells of its jobs beside their ends: how they behaved, and what the guard counts of them now.
#include "agent/agent_send.hpp"

namespace tranche::agent {

wire::BehaviourRecord Agent::behaviour_of(const Job& job) const {
  const LeasePage& page = job.folder.page();
  const auto bytes = [](std::uint64_t count) { return Bytes{static_cast<std::int64_t>(count)}; };
  const auto microseconds = [](std::uint64_t count) { return Duration(static_cast<std::int64_t>(count)); };
  wire::BehaviourRecord record{.lease = job.folder.grant.lease};
  record.processes_most = page.processes_most;
  record.processes_started = page.highest_process;
  record.processes_refused = page.processes_refused;
  record.processes_ended = page.processes_ended;
  record.memory_most = bytes(page.memory_most);
  record.memory_kills = page.memory_kills;
  record.cpu_used = microseconds(page.cpu_microseconds);
  record.cpu_throttled = microseconds(page.throttled_microseconds);
  record.output = bytes(page.written[0] + page.written[1]);
  record.output_dropped = bytes(page.dropped[0] + page.dropped[1]);
  record.sessions = static_cast<std::uint32_t>(page.sessions.load());
  record.network = job_network(options_.rules, job.folder.grant) != NetworkKind::kNone;
  const auto reason = static_cast<wire::EndReason>(page.reason.load());
  if (record.processes_refused != 0) record.limits_hit.emplace_back("processes");
  if (record.memory_kills != 0) record.limits_hit.emplace_back("memory");
  if (record.output_dropped.count != 0) record.limits_hit.emplace_back("output");
  if (record.cpu_throttled != Duration{}) record.limits_hit.emplace_back("cpu");
  if (reason == wire::EndReason::kDiskLimit) record.limits_hit.emplace_back("disk");
  if (reason == wire::EndReason::kTimeLimit) record.limits_hit.emplace_back("time");
  return record;
}

std::vector<wire::SliceSample> Agent::slice_samples() const {
  std::vector<wire::SliceSample> all;
  if (!guard_) return all;
  for (const auto& [lease, job] : jobs_) {
    if (job.folder.grant.slices.empty() || is_over(phase_of(job.folder.page()))) continue;
    for (wire::SliceSample& sample : guard_->samples(job.folder.grant)) all.push_back(sample);
  }
  return all;
}

}  // namespace tranche::agent
