// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far a job is, as the API shows it.
#include <optional>
#include <string>

#include "engine/state.hpp"
#include "wire/api_job.hpp"

namespace tranche::api {

[[nodiscard]] std::optional<wire::ProgressView> progress_of(const engine::State&, const engine::Job&);
[[nodiscard]] std::string progress_text(const wire::ProgressView&);  // "120/240 frames, 2 failed, 4m left"

// Of a group: with its chunks.
[[nodiscard]] Money charged_for(const engine::State&, const engine::Job&);

}  // namespace tranche::api
