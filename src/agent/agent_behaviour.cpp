// SPDX-License-Identifier: Apache-2.0
// What an agent tells of its jobs beside their ends: how they behaved, and what the guard counts of them now.
#include <algorithm>
#include <sstream>

#include "agent/agent_send.hpp"
#include "agent/files.hpp"

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
  add_device_use(job, record);
  constexpr std::size_t kListed = 64;
  const auto lines_of = [&](const char* name, std::vector<std::string>& list, std::uint64_t& more) {
    std::istringstream lines(read_whole(job.folder.path() / name).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      if (std::find(list.begin(), list.end(), line) != list.end()) continue;
      if (list.size() < kListed)
        list.push_back(line);
      else
        ++more;
    }
  };
  lines_of("peers", record.peers, record.peers_more);
  lines_of("files", record.files, record.files_more);
  record.files_more += page.files_more;
  record.files_watched = page.files_watched != 0;
  return record;
}

void Agent::add_device_use(const Job& job, wire::BehaviourRecord& record) const {
  const wire::LeaseGrant& grant = job.folder.grant;
  const LeasePage& page = job.folder.page();
  const auto limits =
      guard_ ? guard_->limits(grant, Instant{}, Instant{}) : std::vector<wire::LimitReceipt>{};
  const auto readings = guard_ ? guard_->read(grant) : std::vector<DeviceReading>(grant.slices.size());
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const std::string partition = shares_->view(grant.lease, i).partition;
    const ReportedUse reported =
        watch_.reported(grant.lease, partition.empty() ? grant.slices[i].uuid : partition);
    const auto microseconds = [](std::uint64_t ns) { return Duration(static_cast<std::int64_t>(ns / 1000)); };
    record.devices.push_back({.device = grant.slices[i].device,
                              .vram_granted = grant.slices[i].vram,
                              .vram_counted = i < limits.size() ? limits[i].vram_peak : Bytes{},
                              .vram_reported = {static_cast<std::int64_t>(reported.vram_most)},
                              .time_counted = microseconds(readings[i].device_nanoseconds),
                              .time_reported = microseconds(reported.busy_ns)});
    if (i < limits.size() && limits[i].vram_refusals != 0) record.limits_hit.emplace_back("vram");
  }
  if (static_cast<wire::EndReason>(page.reason.load()) == wire::EndReason::kWentAround)
    record.limits_hit.emplace_back("account");
  std::istringstream lines(read_whole(job.folder.path() / "findings").value_or(""));
  for (std::string line; std::getline(lines, line) && record.findings.size() < 16;)
    record.findings.push_back(line);
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
