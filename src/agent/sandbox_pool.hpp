// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a sandbox can take over instead of having it made: the part of its file system that is the same for
// every job, and a network namespace that an earlier job of the same tenant left as if it had never been
// there. Making and removing a network namespace is a tenth of what a short job costs.
#include <deque>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"
#include "agent/sandbox_launch.hpp"

namespace tranche::agent {

// Only in a process of one thread, as root.
class SandboxPool {
 public:
  SandboxPool();

  struct Taken {
    Descriptor network{};
    std::string untouched{};  // What the kernel counts in it while nobody uses it.
    PartyId tenant{};
  };
  // What this plan can use; the descriptors stay the pool's, or are in `taken` until it is given back.
  [[nodiscard]] PreparedNamespaces take(const SandboxPlan& plan, Taken& taken);
  // Nothing of the job is left. Kept only if it is as it was, and only for the same tenant.
  void give_back(Taken taken);

 private:
  [[nodiscard]] int mounts_for(const SandboxPlan& plan);
  [[nodiscard]] Taken network_for(PartyId tenant);
  [[nodiscard]] Taken made_network(PartyId tenant);
  [[nodiscard]] std::string counts_in(int network);
  void leave_network();
  Descriptor own_network_;
  Descriptor node_mounts_;  // Says when something was mounted or went.
  Descriptor mounts_;
  std::vector<Bind> mounts_of_;
  std::deque<Taken> idle_;  // Longest idle first.
};

}  // namespace tranche::agent
