// SPDX-License-Identifier: Apache-2.0
#pragma once
// What cut a job's attempts short, whose doing that was, and since when it was not charged.
#include <vector>

#include "engine/state.hpp"
#include "wire/api_job.hpp"

namespace tranche::api {

// Oldest first.
[[nodiscard]] std::vector<wire::Interruption> interruptions_of(const engine::State&, const engine::Job&);

}  // namespace tranche::api
