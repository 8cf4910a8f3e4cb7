// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job that says what it does, and not what it needs, gets a slice of the right size.
#include <cstdint>
#include <optional>

#include "wire/job_spec.hpp"
#include "wire/sizing.hpp"

namespace tranche::server {

// The arithmetic, when the job describes its workload. Where it names no GPUs and no SKU, they are filled in:
// a slice with the memory that is recommended, on as many devices as it takes. `largest_vram`: of the devices
// it could land on.
[[nodiscard]] Result<std::optional<wire::Sizing>, wire::Problem> size_job(wire::JobSpec& job,
                                                                          std::int64_t largest_vram);

}  // namespace tranche::server
