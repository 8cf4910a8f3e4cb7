// SPDX-License-Identifier: Apache-2.0
#pragma once
// A number of a limit in the unit that people use for it. Limits are named by the field that sets them.
#include <cstdint>
#include <string>
#include <string_view>

namespace tranche::wire {

// 4000 -> 4, 500 -> 0.5, 1 -> 0.001
std::string thousandths_text(std::int64_t value);

// "4 GPUs" for gpu_milli and 4000, "80GB" for vram_bytes, "8h" for wall_time_max and 28800.
std::string amount_text(std::string_view limit, std::int64_t amount);

}  // namespace tranche::wire
