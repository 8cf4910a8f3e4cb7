// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a job file to the numbers that admission and placement work with.
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "base/result.hpp"
#include "wire/ask.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"
#include "wire/settings.hpp"

namespace tranche::wire {

// A fraction takes that part of compute and VRAM; of a device that is not named, no more VRAM than that part
// of the smallest that is connected, or it would wait for ever. A request by memory alone counts as its part
// of the platform's reference device. Where a request gives alternatives, the first decides what quota it
// takes.
[[nodiscard]] Result<Ask, Problem> resolve_ask(
    const JobSpec& job,
    const std::map<std::string, Sku>& skus,
    const Settings& settings,
    std::int64_t smallest_vram = std::numeric_limits<std::int64_t>::max());

}  // namespace tranche::wire
