// SPDX-License-Identifier: Apache-2.0
#pragma once
// From a job file to the numbers that admission and placement work with.
#include <map>
#include <string>

#include "base/result.hpp"
#include "wire/ask.hpp"
#include "wire/codec.hpp"
#include "wire/job_spec.hpp"
#include "wire/settings.hpp"

namespace tranche::wire {

// A fraction takes that part of compute and VRAM. A request by memory alone counts as its part of the
// platform's reference device. Where a request gives alternatives, the first decides what quota it takes.
[[nodiscard]] Result<Ask, Problem> resolve_ask(const JobSpec& job,
                                               const std::map<std::string, Sku>& skus,
                                               const Settings& settings);

}  // namespace tranche::wire
