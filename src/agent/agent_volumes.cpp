// SPDX-License-Identifier: Apache-2.0
// Volumes of a node: shown to the jobs that were granted them, copied and wiped as the server orders.
#include "agent/agent_send.hpp"

namespace tranche::agent {

// Opened before the agent says hello; what it says there is true for as long as it lives.
void Agent::open_volumes() {
  volumes_ = std::make_unique<NodeVolumes>(options_.rules.data / "volumes", options_.volume_cipher);
  features_.gang_networks = options_.simulated || options_.rules.network != NetworkKind::kNone;
  if (options_.simulated) return;
  features_.encrypts_volumes = volumes_->encrypts();
  features_.plain_volumes = volumes_->plain();
  if (options_.shared_volumes.empty()) return;
  features_.shared_volumes = pool_name(options_.shared_volumes);
  pool_ = std::make_unique<NodeVolumes>(
      NodeVolumes::Pool{options_.shared_volumes / "volumes", options_.rules.data / "shared-volumes"},
      options_.volume_cipher);
  for (const VolumeId plain : pool_->plain()) features_.plain_volumes.push_back(plain);
  options_.log("offers the shared volumes of " + features_.shared_volumes);
}

const NodeVolumes& Agent::volumes_in(const std::string& pool) const {
  if (pool.empty()) return *volumes_;
  if (!pool_ || pool != features_.shared_volumes)
    throw std::runtime_error("this node does not mount the pool " + pool);
  return *pool_;
}

// What no job uses is locked; what an agent before this one left open, too.
void Agent::close_unused_volumes() {
  const std::set<VolumeId> used = volumes_in_use();
  volumes_->close_others(used);
  if (pool_) pool_->close_others(used);
}

void Agent::attach_volumes(const wire::LeaseGrant& grant, SandboxPlan& plan) {
  for (const wire::VolumeGrant& volume : grant.volumes) {
    const std::string place =
        volumes_in(volume.pool).open(volume.volume, {grant.tenant, plan.uid, grant.volume_key}).string();
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
      volumes_in(volume.pool).close(volume.volume);
    } catch (const std::exception& problem) { options_.log(problem.what()); }
  }
}

void Agent::take_volume_order(const wire::VolumeOrder& order) {
  if (options_.simulated || !volume_work_.insert(order.volume).second) return;
  chores_->add("volumes", [this, order] {
    wire::VolumeReceipt receipt{.volume = order.volume, .work = order.work};
    try {
      const NodeVolumes& volumes = volumes_in(order.pool);
      receipt = order.work == wire::VolumeWork::kWipe ? volumes.wipe(order) : volumes.copy(order);
    } catch (const std::exception& problem) { receipt.message = problem.what(); }
    return Chores::After([this, receipt] {
      volume_work_.erase(receipt.volume);
      send_surely(receipt);
    });
  });
}

}  // namespace tranche::agent
