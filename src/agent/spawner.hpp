// SPDX-License-Identifier: Apache-2.0
#pragma once
// Starts supervisors. The agent has threads, and a forked copy of such a process may only call exec; so a
// small single-threaded process is forked at the very start, and supervisors are forked from that: a
// fraction of a millisecond each, with nothing to load.
#include <cstdint>

#include "agent/shim.hpp"

namespace tranche::agent {

class Spawner {
 public:
  // Before the first thread of the process. Throws std::runtime_error.
  explicit Spawner(const ShimWorld& world);
  ~Spawner();  // Supervisors live on.
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  // Process id of the supervisor. The plan's folder must be ready. Throws std::runtime_error.
  int start(const SandboxPlan& plan);

 private:
  Descriptor link_;
  int process_ = -1;
};

}  // namespace tranche::agent
