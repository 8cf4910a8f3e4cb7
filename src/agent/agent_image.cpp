// SPDX-License-Identifier: Apache-2.0
// The image of a job: found, and unpacked where need be, beside the agent's thread.
#include "agent/agent_send.hpp"
#include "agent/image_plan.hpp"

namespace tranche::agent {

// What a job waits for before it starts, one after the other.
void Agent::prepare(Job& job, SandboxPlan plan) {
  const wire::JobSpec& spec = job.folder.grant.spec;
  if (!spec.image.empty() && plan.rootfs.empty()) return find_image(job, std::move(plan));
  if (!spec.workdir.empty()) return fetch_then_launch(job, std::move(plan));
  launch(job, plan);
}

void Agent::find_image(Job& job, SandboxPlan plan) {
  job.fetching = true;
  const LeaseId lease = job.folder.grant.lease;
  chores_->add("images", [this, lease, name = job.folder.grant.spec.image, plan = std::move(plan)] {
    const auto found = images_->find(name);
    return Chores::After([this, lease, plan, found] { image_found(lease, plan, found); });
  });
}

void Agent::image_found(LeaseId lease, SandboxPlan plan, const Result<Image, std::string>& found) {
  Job* job = job_of(lease);
  if (job == nullptr || !std::exchange(job->fetching, false)) return;
  if (job->ended_by) {
    return end_before_start(
        *job, static_cast<wire::EndReason>(job->ended_by->reason), "ended before it was started");
  }
  if (!found) return end_before_start(*job, wire::EndReason::kImageFailed, found.error());
  if (const auto fits = apply_image(plan, *found, job->folder.grant.spec, *home_); !fits)
    return end_before_start(*job, wire::EndReason::kImageFailed, fits.error());
  try {
    prepare(*job, std::move(plan));
  } catch (const std::exception& error) {
    end_before_start(*job, wire::EndReason::kPlatformFault, error.what());
  }
}

}  // namespace tranche::agent
