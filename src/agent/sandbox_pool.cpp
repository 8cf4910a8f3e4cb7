// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox_pool.hpp"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sstream>
#include <unistd.h>

#include "agent/cgroup_files.hpp"
#include "agent/sandbox_root.hpp"

namespace tranche::agent {
namespace {

constexpr std::size_t kIdleMost = 32;

// Without what the kernel counts over all networks of the machine: others change that.
std::string own_counts(const std::string& text) {
  std::istringstream words(text);
  std::string kept;
  for (std::string word; words >> word;) {
    if (word == "orphan" || word == "alloc" || word == "mem") {
      words >> word;
    } else {
      kept += word + ' ';
    }
  }
  return kept;
}

}  // namespace

SandboxPool::SandboxPool()
    : own_network_(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)),
      node_mounts_(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)) {}

PreparedNamespaces SandboxPool::take(const SandboxPlan& plan, Taken& taken) {
  if (plan.uid == 0) return {};  // Not root: bubblewrap makes all of it.
  PreparedNamespaces prepared{.mounts = mounts_for(plan)};
  if (plan.network == NetworkKind::kNone && plan.tenant != PartyId{}) taken = network_for(plan.tenant);
  prepared.network = taken.network.get();
  return prepared;
}

int SandboxPool::mounts_for(const SandboxPlan& plan) {
  const auto shared_end = plan.binds.begin() + static_cast<std::ptrdiff_t>(plan.binds_shared);
  const std::vector<Bind> shared(plan.binds.begin(), shared_end);
  if (plan.binds_shared == 0 || !plan.rootfs.empty() || !fits_prepared_root({shared_end, plan.binds.end()}))
    return -1;
  pollfd changes{node_mounts_.get(), POLLPRI, 0};
  if (::poll(&changes, 1, 0) > 0 || shared != mounts_of_ || !mounts_.open()) {
    mounts_.reset(prepare_sandbox_root(shared));
    mounts_of_ = shared;
  }
  return mounts_.get();
}

SandboxPool::Taken SandboxPool::network_for(PartyId tenant) {
  const auto found =
      std::find_if(idle_.rbegin(), idle_.rend(), [&](const Taken& one) { return one.tenant == tenant; });
  if (found == idle_.rend()) return made_network(tenant);
  Taken taken = std::move(*found);
  idle_.erase(std::next(found).base());
  return taken;
}

SandboxPool::Taken SandboxPool::made_network(PartyId tenant) {
  Taken made{.tenant = tenant};
  if (!own_network_.open() || ::unshare(CLONE_NEWNET) != 0) return made;
  if (raise_loopback()) made.network.reset(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  leave_network();
  if (made.network.open()) made.untouched = counts_in(made.network.get());
  return made;
}

// Sockets of every kind, also those that the kernel keeps for a while after their process.
std::string SandboxPool::counts_in(int network) {
  if (::setns(network, CLONE_NEWNET) != 0) return {};
  std::string counts;
  for (const char* file : {"sockstat", "sockstat6", "unix"})
    counts += own_counts(get_control(std::string("/proc/thread-self/net/") + file));
  leave_network();
  return counts;
}

void SandboxPool::leave_network() {
  if (::setns(own_network_.get(), CLONE_NEWNET) != 0) ::_exit(1);  // Nothing else may be started from there.
}

void SandboxPool::give_back(Taken taken) {
  if (!taken.network.open() || taken.untouched.empty() || counts_in(taken.network.get()) != taken.untouched)
    return;
  if (idle_.size() == kIdleMost) idle_.pop_front();
  idle_.push_back(std::move(taken));
}

}  // namespace tranche::agent
