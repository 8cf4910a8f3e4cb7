// SPDX-License-Identifier: Apache-2.0
// The working directory of a job: fetched from the server beside the agent's thread, and unpacked by the job
// itself inside its sandbox, so that nothing in the archive can reach further than the job can.
#include "agent/agent_send.hpp"
#include "agent/files.hpp"
#include "agent/workdir_fetch.hpp"

namespace tranche::agent {
namespace {

constexpr const char* kArchiveInside = "/tmp/.tranche-workdir.tar";

std::string unpacking(const std::string& setup) {
  return std::string("tar -xf ") + kArchiveInside + " -C /work --no-same-owner || " +
         "{ echo 'tranche: the working directory could not be unpacked' >&2; exit 1; }\n" + setup;
}

}  // namespace

void Agent::fetch_then_launch(Job& job, SandboxPlan plan) {
  const wire::LeaseGrant& grant = job.folder.grant;
  const WorkdirWish wish{.lease = grant.lease,
                         .digest = grant.spec.workdir,
                         .folder = options_.rules.data / "workdirs" / text(grant.tenant)};
  net::ClientOptions where;
  {
    const std::lock_guard lock(identity_mutex_);
    where = client_options(identity_);
  }
  plan.setup = unpacking(plan.setup);
  plan.binds.push_back({archive_path(wish).string(), kArchiveInside, BindKind::kReadOnly});
  job.fetching = true;
  chores_->add("fetch", [this, wish, where, plan = std::move(plan)] {
    std::string problem = fetch_workdir(where, wish);
    return Chores::After([this, lease = wish.lease, plan, problem] { fetched(lease, plan, problem); });
  });
}

void Agent::fetched(LeaseId lease, const SandboxPlan& plan, const std::string& problem) {
  Job* job = job_of(lease);
  if (job == nullptr || !std::exchange(job->fetching, false)) return;
  if (job->ended_by) {
    return end_before_start(
        *job, static_cast<wire::EndReason>(job->ended_by->reason), "ended before it was started");
  }
  if (!problem.empty()) return end_before_start(*job, wire::EndReason::kSetupFailed, problem);
  try {
    launch(*job, plan);
  } catch (const std::exception& error) {
    end_before_start(*job, wire::EndReason::kPlatformFault, error.what());
  }
}

// Nothing of it ever ran, so there is nothing to end; what was made for it goes.
void Agent::end_before_start(Job& job, wire::EndReason reason, const std::string& message) {
  LeasePage& page = job.folder.page();
  const bool wiped = remove_tree(job.folder.path() / "work");
  page.scratch_wiped = remove_tree(job.folder.path() / "tmp") && wiped ? 1 : 0;
  write_whole(job.folder.path() / "message", message, 0600);
  say(job, "tranche: " + message);
  page.exit_code = 1;
  page.reason = static_cast<std::uint32_t>(reason);
  page.ended_at = static_cast<std::uint64_t>(wall_time().time_since_epoch().count());
  page.phase.store(static_cast<std::uint32_t>(JobPhase::kEnded), std::memory_order_release);
  look(job);
}

}  // namespace tranche::agent
