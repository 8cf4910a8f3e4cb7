// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine on a copy of its state, ahead of time: the very same decisions, with the ends of jobs drawn from
// how long their like have run. Nobody submits anything in it, no node joins or dies.
#include <cstdint>
#include <optional>

#include "engine/engine.hpp"

namespace tranche::server {

struct RunAheadOptions {
  std::uint64_t seed = 1;
  std::int32_t run = 0;
  std::int32_t runs = 0;            // Zero: everybody runs as long as the middle of its like.
  std::uint32_t steps_max = 4'000;  // An answer is bounded in work, not in time.
  Duration look_ahead = std::chrono::hours(24 * 30);
};

// How long from now until the job is granted a place; nothing: not within the bounds. Uses the state up.
[[nodiscard]] std::optional<Duration> run_ahead(engine::State&, Instant now, JobId, const RunAheadOptions&);

}  // namespace tranche::server
