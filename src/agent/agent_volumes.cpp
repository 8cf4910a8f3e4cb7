// SPDX-License-Identifier: Apache-2.0
// Volumes of a node: shown to the jobs that were granted them, copied and wiped as the server orders.
#include "agent/agent_send.hpp"
#include "wire/volume_key.hpp"

namespace tranche::agent {

void Agent::attach_volumes(const wire::LeaseGrant& grant, SandboxPlan& plan) {
  const std::string* key = grant.spec.secrets.find(wire::kVolumeKeySecret);
  for (const wire::VolumeGrant& volume : grant.volumes) {
    const std::string place =
        volumes_->open(volume.volume, {grant.tenant, plan.uid, key == nullptr ? "" : *key}).string();
    plan.binds.push_back({place, volume.path, volume.read_only ? BindKind::kReadOnly : BindKind::kWritable});
    if (!volume.read_only)
      plan.volumes.push_back({place, volume.path, static_cast<std::uint64_t>(volume.quota.count)});
  }
}

std::set<VolumeId> Agent::volumes_in_use() const {
  std::set<VolumeId> used;
  for (const auto& [lease, job] : jobs_)
    if (job.folder.page().settled == 0 && !job.told_end)
      for (const wire::VolumeGrant& volume : job.folder.grant.volumes) used.insert(volume.volume);
  return used;
}

// Without a user left, an encrypted volume is locked again.
void Agent::detach_volumes(const wire::LeaseGrant& grant) {
  const std::set<VolumeId> used = volumes_in_use();
  for (const wire::VolumeGrant& volume : grant.volumes) {
    if (used.contains(volume.volume)) continue;
    try {
      volumes_->close(volume.volume);
    } catch (const std::exception& problem) { options_.log(problem.what()); }
  }
}

void Agent::take_volume_order(const wire::VolumeOrder& order) {
  if (options_.simulated || !volume_work_.insert(order.volume).second) return;
  chores_->add("volumes", [this, order] {
    const bool wipes = order.work == wire::VolumeWork::kWipe;
    wire::VolumeReceipt receipt = wipes ? volumes_->wipe(order) : volumes_->copy(order);
    return Chores::After([this, receipt] {
      volume_work_.erase(receipt.volume);
      send_surely(receipt);
    });
  });
}

}  // namespace tranche::agent
