// SPDX-License-Identifier: Apache-2.0
#pragma once
// A trace replayed on a shrunken or given cluster: behind walls, in one pool, with lending, or by the engine
// that serves people.
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/replay_lending.hpp"
#include "sim/replay_queue.hpp"
#include "sim/replay_report.hpp"

namespace tranche::sim {

enum class ReplayMode { kWalls, kPool, kLending, kEngine };
std::optional<ReplayMode> parse_replay_mode(std::string_view name);
std::string_view replay_mode_name(ReplayMode mode);

struct ReplayOptions {
  ReplayMode mode = ReplayMode::kLending;
  policy::LendingRules rules{};  // Of lending; checkpoints, restarts and grace of the engine, too.
  Durations durations = Durations::kPredicted;  // Of walls and pool.
  QueueRule rule = QueueRule::kEasy;            // Of walls and pool.
  std::function<void(Seconds)> progress{};
};

ReplayRun replay(const ReplayTrace& trace, const ReplayOptions& options);

// The report as JSON text: the fields scripts rely on (docs/lending.md), then the rest.
std::string replay_json(const ReplayReport& report, ReplayMode mode);

}  // namespace tranche::sim
