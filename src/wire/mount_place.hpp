// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a job may have volumes and checkpoints shown: the same rule where a job is submitted and on its node.
#include <string_view>

namespace tranche::wire {

// A path of the job's own choice never hides what the platform put there: the guard, accounts, devices.
[[nodiscard]] bool may_be_covered(std::string_view path);
inline constexpr std::string_view kCoverable =
    "an absolute path such as /data; /work and /tmp themselves, and what is below /etc, /usr, /run, /dev, "
    "/proc, /sys and the like are the platform's";

}  // namespace tranche::wire
