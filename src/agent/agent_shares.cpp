// SPDX-License-Identifier: Apache-2.0
// Partitions and sharing daemons of leases: set up before the job starts, down before the lease is over.
#include <algorithm>

#include "agent/agent_send.hpp"
#include "wire/health_codes.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kDaemonInside = "/run/mps";

}  // namespace

std::vector<SharedDevice> Agent::shared_devices(const Job& job) const {
  std::vector<SharedDevice> devices;
  for (const std::uint32_t index : job.physical)
    devices.push_back({devices_[index].port, devices_[index].facts});
  return devices;
}

std::vector<GrantedDevice> Agent::devices_of(const Job& job) const {
  std::vector<GrantedDevice> granted;
  for (std::size_t i = 0; i < job.physical.size(); ++i) {
    const Device& device = devices_[job.physical[i]];
    const std::string partition = shares_->view(job.folder.grant.lease, i).partition;
    const std::string& seen = partition.empty() ? device.facts.uuid : partition;
    granted.push_back({.uuid = seen, .vendor = device.facts.vendor, .files = device.port->files_of(seen)});
  }
  return granted;
}

void Agent::show_daemon(const Job& job, SandboxPlan& plan) const {
  const wire::LeaseGrant& grant = job.folder.grant;
  for (std::size_t i = 0; i < grant.slices.size(); ++i) {
    const std::string folder = shares_->view(grant.lease, i).daemon_folder;
    if (folder.empty()) continue;
    // One address for a job: the daemons of several devices of one lease cannot be told apart by it.
    if (i > 0) throw std::runtime_error("a job on a sharing daemon has one device");
    plan.binds.push_back({folder, kDaemonInside, BindKind::kWritable});
    plan.environment.set("CUDA_MPS_PIPE_DIRECTORY", kDaemonInside);
    plan.environment.set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                         std::to_string(std::max(1, grant.slices[i].milli / 10)));
  }
}

// True: all of it is down, or given up. The processes of a job are gone by now, but a driver may need a
// moment to notice; what it does not give back within the patience takes the device out of service.
bool Agent::shares_down(Job& job) {
  const LeaseId lease = job.folder.grant.lease;
  const std::vector<StuckShare> stuck = shares_->take_down(lease);
  job.shares_next = 0;
  if (stuck.empty()) return true;
  const BootTime now = boot_time();
  if (job.shares_until == 0) job.shares_until = now + nanoseconds(options_.shares_patience);
  if (now < job.shares_until) {
    job.shares_next = now + nanoseconds(std::chrono::milliseconds(100));
    return false;
  }
  tell_stuck(lease, stuck);
  return true;
}

void Agent::tell_stuck(LeaseId lease, const std::vector<StuckShare>& stuck) {
  for (const StuckShare& share : stuck) {
    const std::string words = "after " + text(lease) + ": " + share.why;
    options_.log(share.uuid + " is out of service " + words);
    send_surely(wire::HealthSignal{
        .uuid = share.uuid, .source = "agent", .code = wire::kShareStuck, .at = wall_time(), .text = words});
  }
  shares_->forget(lease);
}

// Of a lease that never began.
void Agent::abandon(LeaseId lease) {
  try {
    if (guard_) guard_->close(lease);
  } catch (const std::exception& problem) { options_.log(problem.what()); }
  tell_stuck(lease, shares_->take_down(lease));
  if (Job* job = job_of(lease)) {
    const wire::LeaseGrant grant = job->folder.grant;
    job->folder.forget();
    jobs_.erase(lease);
    detach_volumes(grant);
  }
}

}  // namespace tranche::agent
