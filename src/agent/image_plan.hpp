// SPDX-License-Identifier: Apache-2.0
#pragma once
// What an image changes about a job's sandbox. The job's own words come before the image's, and the
// platform's (devices, the guard, TRANCHE_*) before both.
#include <filesystem>
#include <string>
#include <vector>

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

// Images do not bring the driver's own libraries, which must fit the kernel's part of it: those of the node
// that are found in these folders, as they are shown in an image.
inline constexpr const char* kDriverInside = "/run/tranche-driver";
[[nodiscard]] std::vector<Bind> driver_binds(const std::vector<std::filesystem::path>& folders = {
                                                 "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"});

}  // namespace tranche::agent
