// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two systems lending is compared with, both in submit order without preemption: walls (every pool keeps
// its own nodes) and pool (all nodes for everybody).
#include <functional>

#include "sim/replay_report.hpp"
#include "sim/replay_trace.hpp"

namespace tranche::sim {

enum class Walls { kPerPool, kNone };
enum class QueueRule { kFifo, kEasy };
enum class Durations { kPredicted, kTrue };  // What EASY believes. True is for comparison with an oracle.

struct QueueOptions {
  Walls walls = Walls::kPerPool;
  QueueRule rule = QueueRule::kEasy;
  Durations durations = Durations::kPredicted;
  std::function<void(Seconds)> progress{};  // Called now and then with the time reached.
};

ReplayRun replay_queue(const ReplayTrace& trace, const QueueOptions& options);

}  // namespace tranche::sim
