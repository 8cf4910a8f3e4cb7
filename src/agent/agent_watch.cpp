// SPDX-License-Identifier: Apache-2.0
// What devices report of their processes beside what the guard counted: whoever goes around it is ended.
#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_send.hpp"
#include "agent/cgroup_files.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

constexpr Duration kWatchEvery = std::chrono::milliseconds(500);
constexpr std::string_view kSharingDaemon = "nvidia-cuda-mps";

// The job cannot leave it, nor make another below it.
ino_t process_namespace(int pid) {
  struct stat info{};
  return pid > 0 && ::stat(("/proc/" + std::to_string(pid) + "/ns/pid").c_str(), &info) == 0 ? info.st_ino
                                                                                             : 0;
}

std::string name_of(int pid) {
  std::string name = get_control("/proc/" + std::to_string(pid) + "/comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  for (char& letter : name)
    if (static_cast<unsigned char>(letter) < ' ') letter = '?';  // A job chooses it.
  return name;
}

int parent_of(int pid) {
  const std::string stat = get_control("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 4 >= stat.size()
             ? 0
             : std::atoi(stat.c_str() + name_end + 4);
}

// The agent wipes and tests devices itself, and by processes that it starts.
bool is_of_platform(int pid) {
  if (name_of(pid).starts_with(kSharingDaemon)) return true;
  for (int depth = 0; pid > 1 && depth < 16; ++depth, pid = parent_of(pid))
    if (pid == ::getpid()) return true;
  return false;
}

}  // namespace

bool Agent::watches_devices() const {
  return guard_ && home_->has_guard() && std::any_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
           const LeasePage& page = entry.second.folder.page();
           return page.init.load() != 0 && !is_over(phase_of(page)) &&
                  !entry.second.folder.grant.slices.empty();
         });
}

void Agent::watch_devices(BootTime now) {
  if (now < watch_next_ || !watches_devices()) return;
  watch_next_ = now + nanoseconds(kWatchEvery);
  try {
    if (guard_->keep()) options_.log("the broker ended and was replaced; its accounts go on");
    for (const Finding& finding : watch_.look(boot_time(), seen_uses())) act_on(finding);
  } catch (const std::exception& problem) {
    // Without the broker's word nobody is judged: its absence is not a job's doing.
    options_.log(std::string("devices are not compared with accounts now: ") + problem.what());
  }
}

// Every lease with its slices, as counted, and the processes that devices report for it.
std::vector<SeenUse> Agent::seen_uses() {
  std::vector<gpu::DeviceProcess> processes;
  for (const auto& port : ports_)
    for (gpu::DeviceProcess& process : port->processes()) processes.push_back(std::move(process));
  std::map<ino_t, LeaseId> homes;
  for (const auto& [lease, job] : jobs_)
    if (!is_over(phase_of(job.folder.page())))
      if (const ino_t home = process_namespace(static_cast<int>(job.folder.page().init.load())); home != 0)
        homes[home] = lease;
  std::map<LeaseId, std::vector<gpu::DeviceProcess>> by_lease;
  for (gpu::DeviceProcess& process : processes) {
    const ino_t home = process_namespace(process.pid);
    if (home == 0) continue;  // It has just ended.
    const auto owner = homes.find(home);
    if (owner != homes.end())
      by_lease[owner->second].push_back(std::move(process));
    else
      note_foreign(process);
  }
  std::vector<SeenUse> uses;
  for (const auto& [home, lease] : homes) add_uses(lease, by_lease[lease], uses);
  return uses;
}

void Agent::add_uses(LeaseId lease,
                     const std::vector<gpu::DeviceProcess>& processes,
                     std::vector<SeenUse>& uses) {
  const wire::LeaseGrant& grant = jobs_.at(lease).folder.grant;
  const std::set<std::int32_t> joined = processes.empty() ? std::set<std::int32_t>{} : guard_->joined(lease);
  // After the device was asked: what is released goes from the device first, and what is taken is counted
  // first.
  const std::vector<GuardTenants::Account> accounts = guard_->accounts(grant);
  std::map<std::string, SeenUse> places;
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const wire::SliceGrant& slice = grant.slices[i];
    const std::string partition = shares_->view(lease, i).partition;
    const std::string& uuid = partition.empty() ? slice.uuid : partition;
    const GuardTenants::Account& account = accounts[i];
    places[uuid] = {.lease = lease,
                    .uuid = uuid,
                    .separated = slice.isolation != wire::Isolation::kSoft,
                    .vram_limit = account.vram_limit,
                    .vram_counted = account.vram_counted,
                    .counted_ns = account.counted_ns,
                    .submitted_ns = account.submitted_ns,
                    .measured_ns = account.measured_ns,
                    .account = account.number,
                    .since_launch = account.since_launch,
                    .neighbours = account.neighbours};
  }
  for (const gpu::DeviceProcess& process : processes) {
    const auto [place, fresh] =
        places.try_emplace(process.uuid, SeenUse{.lease = lease, .uuid = process.uuid, .granted = false});
    place->second.processes.push_back({.pid = process.pid,
                                       .name = name_of(process.pid),
                                       .vram = static_cast<std::uint64_t>(process.vram.count),
                                       .busy_milli = process.busy_milli,
                                       .joined = joined.contains(process.pid)});
  }
  for (auto& [uuid, use] : places) uses.push_back(std::move(use));
}

// Once for each: an operator's own program, or what something outside of any job left there.
void Agent::note_foreign(const gpu::DeviceProcess& process) {
  if (is_of_platform(process.pid) || !foreign_.emplace(process.pid, process_start(process.pid)).second)
    return;
  const std::string words = "process " + std::to_string(process.pid) + " (" + name_of(process.pid) +
                            ") uses it and belongs to no lease";
  options_.log(process.uuid + ": " + words);
  send_surely(wire::HealthSignal{.uuid = process.uuid,
                                 .source = "agent",
                                 .code = wire::kForeignProcess,
                                 .value = process.pid,
                                 .at = wall_time(),
                                 .text = words});
}

void Agent::act_on(const Finding& finding) {
  Job* job = job_of(finding.lease);
  if (job == nullptr) return;
  options_.log(text(finding.lease) + ": " + finding.evidence);
  write_findings(*job, finding.evidence);
  if (!finding.ends) return;
  const auto slice = std::find_if(job->folder.grant.slices.begin(),
                                  job->folder.grant.slices.end(),
                                  [&](const wire::SliceGrant& one) { return one.uuid == finding.uuid; });
  const std::string& device = slice == job->folder.grant.slices.end() ? finding.uuid : slice->uuid;
  send_surely(wire::HealthSignal{.uuid = device,
                                 .source = "agent",
                                 .code = wire::kWentAround,
                                 .at = wall_time(),
                                 .text = text(finding.lease) + ": " + finding.evidence});
  if (job->stop_message.empty()) job->stop_message = "went around the guard: " + finding.evidence;
  order(*job, {.kind = OrderKind::kKill, .reason = static_cast<std::uint32_t>(wire::EndReason::kWentAround)});
}

// Beside the lease's page, so that the record has them also when another agent writes it.
void Agent::write_findings(const Job& job, const std::string& evidence) {
  const Descriptor file(
      ::open((job.folder.path() / "findings").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string line = evidence + "\n";
  if (!file.open() || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    options_.log("a finding could not be written down: " + evidence);
}

}  // namespace tranche::agent
