// SPDX-License-Identifier: Apache-2.0
#pragma once
// Job files of other systems, turned into our own form before they are read strictly.
#include <optional>

#include "wire/document.hpp"

namespace tranche::wire {

// Renames and moves what SkyPilot and dstack files say in their own words. A key of theirs that Tranche
// cannot honour is a problem that names it: nothing is ever ignored.
std::optional<Problem> translate_job_dialect(Document& document);

}  // namespace tranche::wire
