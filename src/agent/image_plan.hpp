// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an image changes about a job's sandbox. The job's own words come before the image's, and the
// platform's (devices, the guard, TRANCHE_*) before both.
#include <string>

#include "agent/image_store.hpp"
#include "agent/sandbox_home.hpp"
#include "agent/sandbox_plan.hpp"
#include "wire/job_spec.hpp"

namespace tranche::agent {

// The reason when the image has no place for what protects others from the job.
[[nodiscard]] Result<void, std::string> apply_image(SandboxPlan& plan,
                                                    const Image& image,
                                                    const wire::JobSpec& spec,
                                                    const SandboxHome& home);

}  // namespace tranche::agent
